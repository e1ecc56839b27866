package table

import (
	"testing"

	"github.com/writ-os/writ/schema"
)

// The resource table names functions; this package holds them. Neither may
// know one that the other does not.
func TestFunctionsMatchResourceTable(t *testing.T) {
	for name := range schema.ColumnFuncs {
		if funcs[name] == nil {
			t.Errorf("schema.ColumnFuncs names %q, which this package does not have", name)
		}
	}
	for name := range funcs {
		if _, ok := schema.ColumnFuncs[name]; !ok {
			t.Errorf("function %q is not in schema.ColumnFuncs", name)
		}
	}
}

// Every column of every kind must be fillable, for an empty object too.
func TestEveryKindHasARow(t *testing.T) {
	for _, r := range schema.Resources {
		tab, err := compile(r)
		if err != nil {
			t.Errorf("compile table of %s: %v", r, err)
			continue
		}
		if got := string(tab.AppendCells(nil, &Row{Object: r.New()})); len(got) < 2 {
			t.Errorf("%s: row of an empty object is %q", r, got)
		}
	}
}
