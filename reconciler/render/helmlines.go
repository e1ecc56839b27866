package render

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"cuelang.org/go/cue/token"

	chart "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// The templates say nothing of where their output comes from. So they are run a
// second time with a mark at the end of each of their lines, as a comment of
// YAML. The output without the marks is what counts; the marks only say which
// line of which template a line came from. Where marks change what a template
// makes, as under a checksum, the lines still match one by one.

var markPattern = regexp.MustCompile(` #@(\d+)\.(\d+)@`)

// mark returns a copy of a chart whose templates mark their lines. Templates
// are numbered in the order of names.
func mark(c *chart.Chart) *chart.Chart {
	numbers := map[string]int{}
	for i, name := range templateNames(c) {
		numbers[name] = i
	}
	return mapTemplates(c, func(full string, data []byte) []byte { return markTemplate(numbers[full], full, data) })
}

// templateNames are the templates of a chart and its subcharts, sorted.
func templateNames(c *chart.Chart) []string {
	var out []string
	for _, t := range c.Templates {
		out = append(out, c.ChartFullPath()+"/"+t.Name)
	}
	for _, d := range c.Dependencies() {
		out = append(out, templateNames(d)...)
	}
	slices.Sort(out)
	return out
}

// markTemplate adds a mark before each line feed of a template's text.
func markTemplate(number int, name string, data []byte) []byte {
	t := parse.New(name)
	t.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := t.Parse(string(data), "", "", trees); err != nil {
		return data
	}
	var b strings.Builder
	feeds := feedsOf(string(data))
	names := make([]string, 0, len(trees))
	for n := range trees {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if trees[n].Root == nil {
			continue
		}
		markNode(trees[n].Root, number, string(data), feeds)
		if n != name {
			fmt.Fprintf(&b, "{{define %q}}%s{{end}}", n, trees[n].Root)
		}
	}
	if main := trees[name]; main != nil && main.Root != nil {
		b.WriteString(main.Root.String())
	}
	return []byte(b.String())
}

func markNode(n parse.Node, number int, data string, feeds lineFeeds) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, c := range n.Nodes {
			markNode(c, number, data, feeds)
		}
	case *parse.IfNode:
		markNode(n.List, number, data, feeds)
		markNode(n.ElseList, number, data, feeds)
	case *parse.WithNode:
		markNode(n.List, number, data, feeds)
		markNode(n.ElseList, number, data, feeds)
	case *parse.RangeNode:
		markNode(n.List, number, data, feeds)
		markNode(n.ElseList, number, data, feeds)
	case *parse.TextNode:
		at := int(n.Pos)
		if at+len(n.Text) > len(data) || data[at:at+len(n.Text)] != string(n.Text) {
			return
		}
		line := feeds.line(at)
		var b strings.Builder
		for i, part := range strings.SplitAfter(string(n.Text), "\n") {
			if text, ok := strings.CutSuffix(part, "\n"); ok {
				fmt.Fprintf(&b, "%s #@%d.%d@\n", text, number, line+i)
				continue
			}
			b.WriteString(part)
		}
		n.Text = []byte(b.String())
	}
}

// lineMap says where the lines of one output come from.
type lineMap struct {
	from *origins
	own  int         // number of the template itself
	at   []linePlace // by line of the output
	text []string
}

type linePlace struct{ template, line int }

// lines aligns the output of a template with its marked output.
func (e *executed) lines(h *helm, name string) *lineMap {
	m := &lineMap{from: h.origins, text: strings.Split(e.text[name], "\n"), own: slices.Index(templateNames(h.chart), name)}
	m.align(strings.Split(e.marked[name], "\n"))
	return m
}

// align finds the marked line of each line, and of those without a mark, which
// values brought, that of the next with one: they end there.
func (m *lineMap) align(marked []string) {
	const far = 64
	m.at = make([]linePlace, len(m.text))
	own := make([]bool, len(marked))
	plain := make([]string, len(marked))
	places := make([]linePlace, len(marked))
	next := linePlace{m.own, 1}
	for i := len(marked) - 1; i >= 0; i-- {
		if found := markPattern.FindAllStringSubmatch(marked[i], -1); found != nil {
			last := found[len(found)-1]
			next.template, _ = strconv.Atoi(last[1])
			next.line, _ = strconv.Atoi(last[2])
			own[i] = true
		}
		plain[i], places[i] = strings.TrimRight(markPattern.ReplaceAllString(marked[i], ""), " "), next
	}
	m.guess(plain, places, own)
	same := len(marked) == len(m.text)
	j, last := 0, linePlace{m.own, 1}
	for i, text := range m.text {
		if same {
			m.at[i] = places[i]
			continue
		}
		text = strings.TrimRight(text, " ")
		for k := j; k < min(j+far, len(plain)); k++ {
			if plain[k] == text {
				last, j = places[k], k+1
				break
			}
		}
		m.at[i] = last
	}
}

// guess improves the places of lines whose line feed "{{-" has cut off: the
// line of the template is between the marks before and after, and begins alike.
func (m *lineMap) guess(plain []string, places []linePlace, own []bool) {
	before := linePlace{m.own, 0}
	for i, p := range places {
		if p.template < len(m.from.templates) && (!own[i] || !m.from.fits(p, plain[i])) {
			places[i] = m.better(before, p, plain[i])
		}
		before = places[i]
	}
}

// better is the line that begins as a line of the output does: one of those since
// the line before, or the last of a template that is included.
func (m *lineMap) better(before, p linePlace, text string) linePlace {
	end := p.line
	if end < before.line { // "range" goes round
		end = before.line + nearRefs
	}
	for n := before.line + 1; p.template == before.template && n < end; n++ {
		if at := (linePlace{p.template, n}); m.from.fits(at, text) {
			return at
		}
	}
	for _, at := range m.from.included(p) {
		if m.from.fits(at, text) {
			return at
		}
	}
	return p
}

// pos is the place in the template of a place in the output.
func (m *lineMap) pos(line, column int) token.Pos {
	if line < 1 || line > len(m.at) {
		line = len(m.at)
	}
	p := m.at[line-1]
	if p.template >= len(m.from.templates) {
		return token.NoPos
	}
	t := &m.from.templates[p.template]
	if t.data == "" || p.line < 1 || p.line > len(t.lines) || p.line > len(t.begin) {
		return t.file.Pos(0, token.NoRelPos)
	}
	begin, rest := t.begin[p.line-1], t.lines[p.line-1]
	// What follows in the output begins the same in the template, unless the
	// template computes it.
	offset := len(rest) - len(strings.TrimLeft(rest, " "))
	if text := m.text[line-1]; column >= 1 && column <= len(text) {
		word := text[column-1:]
		if end := strings.IndexAny(word, ": "); end > 0 {
			word = word[:end]
		}
		if i := strings.Index(rest, word); i >= 0 && word != "" {
			offset = i
		} else if i := strings.Index(rest, "{{"); i > offset {
			offset = i
		}
	}
	return t.file.Pos(begin+offset, token.NoRelPos)
}

// place moves an object from the output to the template, and what is a value as it
// stands to where the value is written. keys is the way to the node.
func (m *lineMap) place(n *node, keys []string) {
	value := m.from.of(m.at[min(max(n.pos.Line(), 1), len(m.at))-1], n, keys)
	n.pos = m.pos(n.pos.Line(), n.pos.Column())
	if value != nil {
		n.pos = value.pos
	}
	for i := range n.fields {
		f := &n.fields[i]
		f.pos = m.pos(f.pos.Line(), f.pos.Column())
		if e := value.entry(f.key); e != nil {
			f.pos = e.pos
		}
		m.place(f.val, append(keys, f.key))
	}
	for i, item := range n.items {
		m.place(item, append(keys, strconv.Itoa(i)))
	}
}

// finding moves a finding about the output to the template.
func (m *lineMap) finding(f v1alpha1.Finding) v1alpha1.Finding {
	if p := m.pos(f.Line, f.Column); p.IsValid() {
		shown := ""
		if f.Line >= 1 && f.Line <= len(m.text) {
			shown = strings.TrimSpace(m.text[f.Line-1])
		}
		f.File, f.Line, f.Column = p.Filename(), p.Line(), p.Column()
		if f.Hint == "" && shown != "" {
			f.Hint = fmt.Sprintf("the template makes the line %q", quoteShort(shown))
		}
	}
	return f
}

// pin gives an object of an archive the one place that can be edited.
func (s source) pin(n *node) {
	f := token.NewFile(s.file, 0, 1)
	var visit func(n *node)
	visit = func(n *node) {
		n.pos = f.Pos(0, token.NoRelPos)
		for i := range n.fields {
			n.fields[i].pos = n.pos
			visit(n.fields[i].val)
		}
		for _, item := range n.items {
			visit(item)
		}
	}
	visit(n)
}

func (s source) pinFinding(f v1alpha1.Finding) v1alpha1.Finding {
	if s.packed {
		f.Line, f.Column = 1, 1
	}
	return f
}
