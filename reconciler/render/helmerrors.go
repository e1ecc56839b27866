package render

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxFailures bounds how many templates of a release are reported.
const maxFailures = 20

const parseError = "parse error "

// sharesValues finds templates that change what others see: what comes after
// one that has failed may then be wrong only because of it.
var sharesValues = regexp.MustCompile(`\b(set|unset|(mustM|m)erge\w*)\s+\(?(\$?\w*\.Values\b|[.$]\s)`)

// failures reports what is wrong with the templates: all but the last as
// findings, the last as the error. The engine ends at the first that fails. So
// it is asked again for those after it, as long as they cannot be wrong by what
// is missing.
func (h *helm) failures(top common.Values, err error) error {
	last := h.templateError(err)
	if slices.ContainsFunc(templateTexts(h.chart), sharesValues.Match) {
		return last
	}
	parsing := strings.HasPrefix(err.Error(), parseError)
	done, seen := map[string]state{}, map[v1alpha1.Finding]bool{samePlace(last): true}
	for range maxFailures - 1 {
		name := failed(err)
		if name == "" || done[name] != pending {
			break
		}
		h.finish(done, name, parsing)
		c := mapTemplates(h.chart, func(full string, data []byte) []byte {
			switch {
			case done[full] == pending:
				return data
			case parsing:
				return nil
			}
			return onlyIncluded(full, data, done[full])
		})
		_, err = h.try(c, top, chance("", map[string]bool{}))
		if err == nil || strings.HasPrefix(err.Error(), parseError) != parsing {
			break
		}
		if names(err, done) {
			continue // it needs what has failed
		}
		next := h.templateError(err)
		if place := samePlace(next); !seen[place] {
			seen[place] = true
			var f *findingError
			if errors.As(last, &f) {
				h.out.find(f.Finding)
			}
			last = next
		}
	}
	return last
}

// samePlace is the finding of an error, whichever template led there.
func samePlace(err error) v1alpha1.Finding {
	var f *findingError
	if !errors.As(err, &f) {
		return v1alpha1.Finding{}
	}
	same := f.Finding
	same.Hint = ""
	return same
}

// failed is the name of the template that an error ended; "" when the error
// names only one that others include.
func failed(err error) string {
	m := templatePlace.FindStringSubmatch(oneLine(err.Error()))
	if m == nil || partial(m[1]) && !strings.HasPrefix(err.Error(), parseError) {
		return ""
	}
	return m[1]
}

func partial(name string) bool { return strings.HasPrefix(path.Base(name), "_") }

// names says whether an error is in a template that is done: its lines are no
// longer those of the file.
func names(err error, done map[string]state) bool {
	for _, m := range templatePlace.FindAllStringSubmatch(oneLine(err.Error()), -1) {
		if done[m[1]] != pending {
			return true
		}
	}
	return false
}

// state is what is known of a template.
type state int

const (
	pending state = iota
	broken
	well
)

// finish notes that a template has failed, and that those are well which the
// engine ran before it.
func (h *helm) finish(done map[string]state, name string, parsing bool) {
	done[name] = broken
	if parsing {
		return
	}
	for _, other := range templateNames(h.chart) {
		if !partial(other) && done[other] == pending && engineOrder(other, name) < 0 {
			done[other] = well
		}
	}
}

// engineOrder compares templates as the engine orders them: the deepest first.
func engineOrder(a, b string) int {
	return cmp.Or(strings.Count(b, "/")-strings.Count(a, "/"), strings.Compare(b, a))
}

// onlyIncluded is a template that is run no more: it makes what it did where
// another includes it, and fails there when it is broken.
func onlyIncluded(name string, data []byte, is state) []byte {
	t := parse.New(name)
	t.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := t.Parse(string(data), "", "", trees); err != nil {
		return nil
	}
	body := `{{template "` + name + ` is broken"}}`
	if main := trees[name]; is == well && main != nil && main.Root != nil {
		body = main.Root.String()
	}
	out := fmt.Appendf(nil, "{{if ne $.Template.Name %q}}%s{{end}}", name, body)
	for _, n := range slices.Sorted(maps.Keys(trees)) {
		if n != name && trees[n].Root != nil {
			out = fmt.Appendf(out, "{{define %q}}%s{{end}}", n, trees[n].Root)
		}
	}
	return out
}

// mapTemplates returns a copy of a chart with other templates. change is given
// their names as the engine has them.
func mapTemplates(c *chart.Chart, change func(full string, data []byte) []byte) *chart.Chart {
	out := &chart.Chart{Metadata: c.Metadata, Lock: c.Lock, Values: c.Values, Files: c.Files}
	for _, t := range c.Templates {
		full := c.ChartFullPath() + "/" + t.Name
		out.Templates = append(out.Templates, &common.File{Name: t.Name, Data: change(full, t.Data)})
	}
	var deps []*chart.Chart
	for _, d := range c.Dependencies() {
		deps = append(deps, mapTemplates(d, change))
	}
	out.SetDependencies(deps...)
	return out
}

// templateTexts are the templates of a chart and its subcharts.
func templateTexts(c *chart.Chart) [][]byte {
	var out [][]byte
	for _, t := range c.Templates {
		out = append(out, t.Data)
	}
	for _, d := range c.Dependencies() {
		out = append(out, templateTexts(d)...)
	}
	return out
}
