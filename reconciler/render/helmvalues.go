package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue/token"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// valueSources are the values of a release, those that win first.
type valueSources []*node

// readValues merges the values of the files and of the release, as helm
// install -f does.
func (h *helm) readValues() (map[string]any, error) {
	merged := map[string]any{}
	for i, n := range h.r.valuesFiles {
		p := relative(h.r.file, n.text)
		field := fmt.Sprintf("spec.valuesFiles[%d]", i)
		f, ok := h.out.unit.values[p]
		if !ok {
			return nil, &findingError{h.r.finding(n, field, "NotFound", "there is no file "+p, "name a file relative to "+h.r.file)}
		}
		data, err := f.read(maxFileSize)
		if err != nil {
			return nil, err
		}
		opened := h.out.open(p, data)
		if len(opened.Findings) > 0 {
			return nil, &findingError{opened.Findings[0]}
		}
		data = opened.Data
		var bad Rendered
		readYAML(&bad, p, data, func(n *node) {
			substitute(h.out, n)
			if n.kind != mapNode {
				bad.find(at(n.pos, "WrongType", "values must be a map"))
				return
			}
			h.values = slices.Insert(h.values, 0, n)
			merged = loader.MergeMaps(merged, n.plain())
		})
		if len(bad.Findings) > 0 {
			return nil, &findingError{bad.Findings[0]}
		}
	}
	if v := h.r.values; v != nil && v.kind == mapNode {
		h.values = slices.Insert(h.values, 0, v)
		merged = loader.MergeMaps(merged, v.plain())
	}
	h.values = append(h.values, readDocs(path.Join(h.files.dir, "values.yaml"), h.contents[path.Join(h.files.dir, "values.yaml")])...)
	return merged, nil
}

// plain returns a map as helm reads it: every number is a float.
func (n *node) plain() map[string]any {
	var out map[string]any
	if json.Unmarshal(n.appendJSON(nil), &out) != nil || out == nil {
		return map[string]any{}
	}
	return out
}

// find returns the place of a value; the nearest map above it when it is not
// set anywhere.
func (v valueSources) find(location []string) (token.Pos, bool) {
	for depth := len(location); depth > 0; depth-- {
		for _, root := range v {
			if pos, ok := descend(root, location[:depth]); ok {
				return pos, true
			}
		}
	}
	if len(v) > 0 {
		return v[0].pos, true
	}
	return token.NoPos, false
}

func descend(n *node, location []string) (token.Pos, bool) {
	pos := n.pos
	for _, step := range location {
		var next *node
		if f := n.entry(step); f != nil {
			next, pos = f.val, f.pos
		} else if i := 0; n != nil && n.kind == listNode {
			if _, err := fmt.Sscan(step, &i); err == nil && i >= 0 && i < len(n.items) {
				next, pos = n.items[i], n.items[i].pos
			}
		}
		if next == nil {
			return pos, false
		}
		n = next
	}
	return pos, true
}

// checkSchemas holds the values against values.schema.json of the chart and
// its subcharts. It says whether something is wrong.
func (h *helm) checkSchemas(c *chart.Chart, values map[string]any, at []string) bool {
	found := false
	if len(c.Schema) > 0 {
		found = h.checkSchema(c, values, at)
	}
	for _, sub := range c.Dependencies() {
		var own map[string]any
		switch v := values[sub.Name()].(type) {
		case map[string]any:
			own = v
		case common.Values:
			own = v
		default:
			continue
		}
		found = h.checkSchemas(sub, own, append(slices.Clone(at), sub.Name())) || found
	}
	return found
}

func (h *helm) checkSchema(c *chart.Chart, values map[string]any, at []string) bool {
	file := h.source(path.Join(c.ChartFullPath(), "values.schema.json")).file
	bad := func(err error) bool {
		h.out.find(v1alpha1.Finding{File: file, Line: 1, Column: 1, Rule: "Helm", Message: oneLine(err.Error())})
		return true
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return bad(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource("file:///values.schema.json", doc); err != nil {
		return bad(err)
	}
	compiled, err := compiler.Compile("file:///values.schema.json")
	if err != nil {
		return bad(err)
	}
	data, err := json.Marshal(values)
	if err != nil {
		return bad(err)
	}
	inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return bad(err)
	}
	var invalid *jsonschema.ValidationError
	if err := compiled.Validate(inst); !errors.As(err, &invalid) {
		return err != nil && bad(err)
	}
	for _, leaf := range leaves(invalid) {
		for _, f := range h.invalid(leaf, file, at) {
			h.out.find(f)
		}
	}
	return true
}

// noLoader keeps schemas from being fetched.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, and nothing is fetched while it is rendered", url)
}

func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	slices.SortStableFunc(out, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation), strings.Compare(said(a), said(b)))
	})
	return out
}

// invalid are the findings of one violation, at the values that the author wrote:
// one for each value that the chart does not have.
func (h *helm) invalid(e *jsonschema.ValidationError, file string, prefix []string) []v1alpha1.Finding {
	location := append(slices.Clone(prefix), e.InstanceLocation...)
	k, ok := e.ErrorKind.(*kind.AdditionalProperties)
	if !ok || len(k.Properties) == 0 {
		return []v1alpha1.Finding{h.invalidValue(location, strings.Join(location, ".")+": "+said(e), "see "+file)}
	}
	var out []v1alpha1.Finding
	for _, name := range slices.Sorted(slices.Values(k.Properties)) { // the library's order is random
		at := append(slices.Clone(location), name)
		hint := "see " + file
		if near := nearest(name, h.siblings(at)); near != "" {
			hint = "did you mean " + near + "?"
		}
		out = append(out, h.invalidValue(at, "the chart has no value "+strings.Join(at, "."), hint))
	}
	return out
}

func said(e *jsonschema.ValidationError) string {
	return e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

func (h *helm) invalidValue(location []string, text, hint string) v1alpha1.Finding {
	f := h.r.finding(nil, "spec.values."+strings.Join(location, "."), "HelmValues", text, hint)
	if pos, _ := h.values.find(location); pos.IsValid() {
		f.File, f.Line, f.Column = pos.Filename(), pos.Line(), pos.Column()
	}
	return f
}

// siblings are the names that the chart's own values have beside one.
func (h *helm) siblings(location []string) map[string]bool {
	out := map[string]bool{}
	if len(h.values) == 0 {
		return out
	}
	n := h.values[len(h.values)-1].get(location[:len(location)-1]...)
	if n == nil {
		return out
	}
	for _, f := range n.fields {
		out[f.key] = true
	}
	delete(out, location[len(location)-1])
	return out
}
