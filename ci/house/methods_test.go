package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// methodsMost is how many methods a type of cmd/writ may have: it wires the rooms
// together and is none itself.
const methodsMost = 12

// tooMany are the types that have more yet, and how many. A number here only falls.
var tooMany = map[string]int{"cluster.ControlPlane": 89, "cluster.Config": 19, "main.access": 22}

// TestMethodsOfWiring counts the methods of each type of cmd/writ.
func TestMethodsOfWiring(t *testing.T) {
	const root = "../../cmd/writ"
	have := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				have[f.Name.Name+"."+receiver(fn.Recv.List[0].Type)]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range have {
		most, known := tooMany[name]
		switch {
		case known && n < most:
			t.Errorf("%s has %d methods: say so in tooMany", name, n)
		case known && n > most, !known && n > methodsMost:
			t.Errorf("%s has %d methods, and may have %d: move what is a room's own there", name, n, max(most, methodsMost))
		}
	}
}

// receiver is the name of the type that a method is of.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
