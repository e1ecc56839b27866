package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
)

//go:embed templates
var templateFiles embed.FS

// views are the templates, one set for each page.
type views struct {
	sets map[string]*template.Template
}

// pageNames are the templates of pages.
var pageNames = []string{"overview", "commits", "commit", "objects", "object", "nodes", "node", "repositories", "repository", "message"}

func newViews(a *assets) *views {
	funcs := template.FuncMap{
		"asset":      func(name string) string { return a.paths[name] },
		"icon":       icon,
		"map":        pairs,
		"add":        func(a, b int) int { return a + b },
		"share":      func(part, of int) string { return decimal(100 * float64(part) / float64(max(of, 1))) },
		"navigation": func() []entry { return navigation },
		"signstate":  signState,
		"signicon": func(s string) string {
			return map[string]string{stateOK: "signed"}[signState(s)] + map[bool]string{true: signState(s)}[signState(s) != stateOK]
		},
		"eventicon": func(s string) string { return map[bool]string{true: "info", false: s}[s == stateIdle] },
	}
	common := template.Must(template.New("layout.html").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/icons.html", "templates/parts.html"))
	v := &views{sets: map[string]*template.Template{}}
	for _, name := range pageNames {
		v.sets[name] = template.Must(template.Must(common.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return v
}

// entry is a line of the navigation.
type entry struct{ Section, Path, Icon, Label string }

var navigation = []entry{
	{"overview", "", "overview", "Overview"},
	{"commits", "commits", "commit", "Commits"},
	{"objects", "objects", "objects", "Objects"},
	{"nodes", "nodes", "node", "Nodes"},
	{"repositories", "repositories", "repository", "Repositories"},
}

// icon is a symbol of the sprite in the page. Names are ours.
func icon(name string) template.HTML {

	return template.HTML(`<svg class="i" aria-hidden="true"><use href="#i-` + template.HTMLEscapeString(name) + `"/></svg>`)
}

// pairs makes a map of names and values, to hand several to a template.
func pairs(list ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(list); i += 2 {
		k, ok := list[i].(string)
		if !ok {
			return nil, fmt.Errorf("map: %v is not a name", list[i])
		}
		m[k] = list[i+1]
	}
	return m, nil
}

// fragment is the header by which the script asks for the part of a page that
// changes.
const fragment = "X-Writ-Fragment"

// answer writes a page, or the part of it that changes. A page that has not
// changed is not sent again.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, status int, name string, c content) {
	var b bytes.Buffer
	err := looks().views.sets[name].ExecuteTemplate(&b, "fragment", c)
	etag := tagOf(b.Bytes())
	if err == nil && r.Header.Get(fragment) == "" {
		whole := frame{content: c, Main: template.HTML(b.String()), Tag: etag} // the template has escaped it
		b = bytes.Buffer{}
		err = looks().views.sets[name].ExecuteTemplate(&b, "layout.html", whole)
		etag = tagOf(b.Bytes())
	}
	if err != nil {
		p.cfg.Log.Error("page not made", "page", name, "err", err)
		http.Error(w, "the page cannot be shown; the server's log says why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "private, no-cache")
	h.Add("Vary", fragment)
	h.Add("Vary", "Authorization")
	var small []byte
	if acceptsGzip(r) && b.Len() > 1024 {
		small = zipped(b.Bytes(), gzip.BestSpeed)
	}
	reply(w, r, status, etag, b.Bytes(), small)
}

// frame is a whole page: the part that changes, and what is around it.
type frame struct {
	content
	Main template.HTML
	Tag  string // of the part, so that the script need not ask for what it has
}

func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}
