package custom

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The documents that upstream's builder writes for a definition whose names are
// those that replacer replaces: but for names all definitions have the same
// paths. They are unpacked anew each time; documents are rarely asked for.
//
//go:generate go run gen/main.go -template openapi
//go:embed openapi/*.json.gz
var templates embed.FS

// template is a document of upstream, of either version.
type template struct {
	Paths      map[string]json.RawMessage `json:"paths"`
	Parameters map[string]json.RawMessage `json:"parameters"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
	Definitions map[string]json.RawMessage `json:"definitions"`
}

// readTemplate returns the text of one of the four templates.
func readTemplate(scope apiextensionsv1.ResourceScope, v2 bool) ([]byte, error) {
	form := "v3"
	if v2 {
		form = "v2"
	}
	if scope != apiextensionsv1.NamespaceScoped {
		scope = apiextensionsv1.ClusterScoped
	}
	zipped, err := templates.ReadFile("openapi/" + strings.ToLower(string(scope)) + "." + form + ".json.gz")
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// fromTemplate is a document with the paths of the version and the schemas that
// they share with others.
func (v *Version) fromTemplate(v2 bool) (*Document, error) {
	text, err := readTemplate(v.d.def.Spec.Scope, v2)
	if err != nil {
		return nil, err
	}
	var t template
	if err := json.Unmarshal([]byte(v.replacer().Replace(string(text))), &t); err != nil {
		return nil, fmt.Errorf("names are not valid: %w", err)
	}
	d := &Document{Paths: t.Paths, Schemas: t.Components.Schemas, Parameters: t.Parameters}
	if v2 {
		d.Schemas = t.Definitions
	}
	subs := v.spec.Subresources
	status, scale := subs != nil && subs.Status != nil, subs != nil && subs.Scale != nil
	for path := range d.Paths {
		if !status && strings.HasSuffix(path, "/{name}/status") || !scale && strings.HasSuffix(path, "/{name}/scale") {
			delete(d.Paths, path)
		}
	}
	if !scale {
		for name := range d.Schemas {
			if strings.HasPrefix(name, "io.k8s.api.autoscaling.") {
				delete(d.Schemas, name)
			}
		}
	}
	return d, nil
}

// replacer puts the names of the version where the template has its own.
func (v *Version) replacer() *strings.Replacer {
	group, names := v.d.def.Spec.Group, v.d.def.Spec.Names
	short := strings.TrimSuffix(group, ".k8s.io")
	return strings.NewReplacer(
		"zzd.zzg.zzv.", reversed(group)+"."+v.spec.Name+".",
		"ZzgZzdZzv", operation(short, true)+operation(v.spec.Name, true),
		"zzgZzd_zzv", operation(short, false)+"_"+operation(v.spec.Name, false),
		" a Zzkind", article(names.Kind)+names.Kind,
		"ZzListKind", names.ListKind,
		"Zzkind", names.Kind,
		"zzplurals", names.Plural,
		"zzg.zzd", group,
		"zzv", v.spec.Name,
	)
}

// operation makes the part of an operation ID of a name, in camel case.
func operation(name string, upper bool) string {
	var b strings.Builder
	for i, r := range name {
		if !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)) {
			upper = true
			continue
		}
		if upper {
			r = unicode.ToUpper(r)
		}
		upper = false
		b.WriteRune(r)
	}
	return b.String()
}

// article is what stands between a verb and a kind, spaces included: none
// before a plural.
func article(kind string) string {
	switch {
	case kind == "" || strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"):
		return " "
	case strings.ContainsRune("aeiouAEIOU", rune(kind[0])):
		return " an "
	}
	return " a "
}

// sharedModels are the schemas that all definitions refer to.
func sharedModels() (map[string]*spec.Schema, error) {
	text, err := readTemplate(apiextensionsv1.ClusterScoped, false)
	if err != nil {
		return nil, err
	}
	var t template
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, err
	}
	out := map[string]*spec.Schema{}
	for name, data := range t.Components.Schemas {
		if !strings.HasPrefix(name, metaModels) {
			continue
		}
		s := &spec.Schema{}
		if err := json.Unmarshal(data, s); err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}
