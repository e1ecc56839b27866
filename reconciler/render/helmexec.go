package render

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Bounds of what one call of a template function may make.
const (
	maxSequence = 100_000
	maxRepeated = 8 << 20
)

// executed is what the templates of a chart made, by their names.
type executed struct {
	text   map[string]string
	marked map[string]string // the same with marks of where lines come from
}

// execute runs the templates. What they make must not depend on chance, on the
// clock or on a cluster. So where they ask for such a thing they are run again
// with another answer: when they make the same, nothing depends on it.
func (h *helm) execute(top common.Values) (*executed, error) {
	called := map[string]bool{}
	text, err := h.try(h.chart, top, chance("", called))
	if err != nil {
		return nil, h.failures(top, err)
	}
	if err := h.findChance(top, text, called); err != nil {
		return nil, err
	}
	size := 0
	for _, t := range text {
		size += len(t)
	}
	if size > maxOutput {
		return nil, &findingError{v1alpha1.Finding{File: path.Join(h.files.dir, chartFile), Rule: "TooLarge",
			Message: "makes more than " + megabytes(maxOutput) + " of manifests", Hint: "split the chart"}}
	}
	out := &executed{text: text}
	if marked, err := h.run(mark(h.chart), top, chance("", map[string]bool{})); err == nil {
		out.marked = marked
	}
	return out, nil
}

// findChance reports each function that the output depends on and no commit
// determines: all but the last as findings, the last as the error.
func (h *helm) findChance(top common.Values, text map[string]string, called map[string]bool) error {
	var last error
	for _, name := range slices.Sorted(maps.Keys(called)) {
		other, err := h.run(h.chart, top, chance(name, map[string]bool{}))
		if err == nil && maps.Equal(text, other) {
			continue
		}
		var f *findingError
		if errors.As(last, &f) {
			h.out.find(f.Finding)
		}
		funcs := chance("", map[string]bool{})
		funcs[name] = func(...any) (any, error) {
			return nil, fmt.Errorf("NONDETERMINISTIC %s %s", name, unknowable[name])
		}
		if _, last = h.run(h.chart, top, funcs); last == nil {
			last = h.chartError(fmt.Errorf("the templates depend on %s, which %s", name, unknowable[name]))
		}
	}
	return last
}

func (h *helm) run(c *chart.Chart, top common.Values, funcs template.FuncMap) (map[string]string, error) {
	text, err := h.try(c, top, funcs)
	if err != nil {
		return nil, h.templateError(err)
	}
	return text, nil
}

// try runs the templates; the error is that of the engine.
func (h *helm) try(c *chart.Chart, top common.Values, funcs template.FuncMap) (map[string]string, error) {
	maps.Copy(funcs, bounded())
	e := engine.Engine{CustomTemplateFuncs: funcs}
	return e.Render(c, top)
}

// certificate is what the functions that make certificates return.
type certificate struct{ Cert, Key string }

// chance gives the functions whose result nobody can know the answers of one
// world, but one of them those of another, and notes which are asked.
func chance(other string, called map[string]bool) template.FuncMap {
	world := func(name string) string {
		called[name] = true
		if name == other {
			return "b"
		}
		return "a"
	}
	out := template.FuncMap{
		"lookup": func(_, _, _, _ string) map[string]any {
			if world("lookup") == "a" {
				return map[string]any{}
			}
			return map[string]any{"metadata": map[string]any{"name": "b"}, "data": map[string]any{}, "items": []any{}}
		},
		"randInt": func(low, _ int) int { return low + int(world("randInt")[0]-'a') },
		"shuffle": func(s string) string { return world("shuffle") + s },
		"now":     func() any { return clockOf(world("now")) },
	}
	for name := range unknowable {
		switch {
		case out[name] != nil:
		case strings.HasPrefix(name, "gen") && name != "genPrivateKey":
			out[name] = func(...any) certificate { return certificate{"cert-" + world(name), "key-" + world(name)} }
		default:
			out[name] = func(...any) string { return strings.Repeat(world(name), 24) }
		}
	}
	return out
}

// unknowable are the functions whose result no commit determines.
var unknowable = map[string]string{
	"lookup": "asks the cluster", "now": "asks the clock", "ago": "asks the clock", "getHostByName": "asks the network",
	"randAlphaNum": "is chance", "randAlpha": "is chance", "randNumeric": "is chance", "randAscii": "is chance", "randBytes": "is chance",
	"randInt": "is chance", "shuffle": "is chance", "uuidv4": "is chance", "bcrypt": "is chance", "htpasswd": "is chance", "encryptAES": "is chance",
	"genPrivateKey": "is chance", "genCA": "is chance", "genCAWithKey": "is chance", "genSelfSignedCert": "is chance",
	"genSelfSignedCertWithKey": "is chance", "genSignedCert": "is chance", "genSignedCertWithKey": "is chance",
}

// bounded are the functions that make much of little, with a bound.
func bounded() template.FuncMap {
	indent := func(spaces int, s string) (string, error) {
		if spaces < 0 || (1+strings.Count(s, "\n"))*spaces+len(s) > maxRepeated {
			return "", errors.New("the text would become too long")
		}
		pad := strings.Repeat(" ", spaces)
		return pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
	}
	step := func(start, stop, step int) ([]int, error) {
		if step == 0 || (stop-start)/step > maxSequence {
			if step != 0 {
				return nil, fmt.Errorf("the list would have more than %d items", maxSequence)
			}
			return []int{}, nil
		}
		out := []int{}
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			out = append(out, i)
		}
		return out, nil
	}
	return template.FuncMap{
		"indent": indent,
		"nindent": func(spaces int, s string) (string, error) {
			out, err := indent(spaces, s)
			return "\n" + out, err
		},
		"repeat": func(n int, s string) (string, error) {
			if n < 0 || n*len(s) > maxRepeated || n > maxRepeated {
				return "", errors.New("the text would become too long")
			}
			return strings.Repeat(s, n), nil
		},
		"untilStep": step,
		"until": func(n int) ([]int, error) {
			if n < 0 {
				return step(0, n, -1)
			}
			return step(0, n, 1)
		},
	}
}

var (
	templatePlace   = regexp.MustCompile(`\(?([^\s():"<>]+/(?:templates|charts)/[^\s():"<>]+):(\d+)(?::(\d+))?\)?`)
	chanceCall      = regexp.MustCompile(`NONDETERMINISTIC (\S+) (asks the \S+|is chance)`)
	templateExpr    = regexp.MustCompile(`^executing "[^"]*" at <([^>]*)>: (?:error calling \S+: )?`)
	templateLeading = regexp.MustCompile(`^(execution error at|parse error at|error calling \S+:|template:)\s*`)
)

// templateError turns an error of the templates into a finding: at the place
// that is named last, for there the error is; those before lead to it.
func (h *helm) templateError(err error) error {
	text := oneLine(err.Error())
	f := v1alpha1.Finding{File: path.Join(h.files.dir, chartFile), Line: 1, Column: 1, Rule: "Helm",
		Object: releaseKind + "/" + h.r.namespace + "/" + h.r.name, Message: text}
	places := templatePlace.FindAllStringSubmatchIndex(text, -1)
	if len(places) > 0 {
		at := func(m []int, i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		last := places[len(places)-1]
		src := h.source(at(last, 1))
		f.File = src.file
		if !src.packed {
			f.Line, _ = strconv.Atoi(at(last, 2))
			f.Column, _ = strconv.Atoi(at(last, 3))
			f.Column++ // text/template counts bytes from 0
		}
		f.Message = strings.TrimLeft(text[last[1]:], ">: ")
		if n := len(places); f.Message == "" && n > 1 { // "...:7: unclosed action started at ...:3"
			f.Message = strings.TrimSuffix(strings.Trim(text[places[n-2][1]:last[0]], ">: "), " started at")
		}
		if src.packed {
			f.Message = at(last, 1) + ":" + at(last, 2) + ": " + f.Message
		}
		if first := places[0]; at(first, 1) != at(last, 1) {
			f.Hint = fmt.Sprintf("from %s:%s", h.source(at(first, 1)).file, at(first, 2))
		}
		f.Message = templateExpr.ReplaceAllString(f.Message, "{{ $1 }}: ")
		for templateLeading.MatchString(f.Message) {
			f.Message = templateLeading.ReplaceAllString(f.Message, "")
		}
	}
	if m := chanceCall.FindStringSubmatch(text); m != nil {
		f.Rule, f.Message = "NotDeterministic", fmt.Sprintf("the template calls %s, which %s: the same commit would not always mean the same", m[1], m[2])
		f.Hint = "give the value that it stands for in spec.values, and guard the call by it"
	}
	return &findingError{f}
}

// source is the file of the repository that a template is kept in.
type source struct {
	file   string
	packed bool // in an archive, whose lines nobody can edit
}

// source finds a file of the chart by the name that the engine gives it:
// web/charts/db/templates/x.yaml.
func (h *helm) source(name string) source {
	_, rest, _ := strings.Cut(name, "/")
	p := path.Join(h.files.dir, rest)
	if _, ok := h.contents[p]; ok {
		return source{file: p}
	}
	// The folder of a subchart may be named otherwise than the chart, or be an
	// archive: charts/db-1.2.3.tgz.
	parts := strings.Split(rest, "/")
	if len(parts) > 2 && parts[0] == "charts" {
		for _, f := range slices.Sorted(maps.Keys(h.contents)) {
			sub, ok := strings.CutPrefix(f, path.Join(h.files.dir, "charts")+"/")
			if !ok {
				continue
			}
			folder, tail, _ := strings.Cut(sub, "/")
			if path.Ext(folder) == ".tgz" && strings.HasPrefix(folder, parts[1]) {
				return source{file: f, packed: true}
			}
			if tail == strings.Join(parts[2:], "/") {
				return source{file: f}
			}
		}
	}
	return source{file: path.Join(h.files.dir, chartFile), packed: true}
}
