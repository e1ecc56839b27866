package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
)

//go:embed static/page.css static/page.js static/icon.svg static/inter.woff2 static/mono.woff2 static/inter.LICENSE.txt static/mono.LICENSE.txt
var staticFiles embed.FS

// assets are the files beside the pages. Their paths hold the hash of their
// content, so that browsers keep them for good.
type assets struct {
	byPath map[string]asset
	paths  map[string]string // page.css: /ui/static/<hash>/page.css
}

type asset struct {
	kind       string
	etag       string
	raw, small []byte // small is nil where gzip does not help
}

var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
}

func newAssets() *assets {
	a := &assets{byPath: map[string]asset{}, paths: map[string]string{}}
	// The style sheet names the fonts, so it comes after them.
	for _, name := range []string{"inter.woff2", "mono.woff2", "inter.LICENSE.txt", "mono.LICENSE.txt", "icon.svg", "page.js", "page.css"} {
		raw, err := staticFiles.ReadFile("static/" + name)
		if err != nil {
			panic("page: " + err.Error()) // it is compiled in
		}
		if name == "page.css" {
			for _, font := range []string{"inter.woff2", "mono.woff2"} {
				raw = bytes.ReplaceAll(raw, []byte("url("+font+")"), []byte("url("+a.paths[font]+")"))
			}
		}
		sum := sha256.Sum256(raw)
		hash := hex.EncodeToString(sum[:6])
		as := asset{kind: kinds[path.Ext(name)], etag: `"` + hash + `"`, raw: raw}
		if path.Ext(name) != ".woff2" {
			as.small = zipped(raw, gzip.BestCompression)
		}
		key := hash + "/" + name
		a.byPath[key], a.paths[name] = as, Prefix+"static/"+key
	}
	return a
}

func zipped(raw []byte, level int) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil
	}
	_, _ = z.Write(raw) // a buffer takes all
	if z.Close() != nil || b.Len() >= len(raw) {
		return nil
	}
	return b.Bytes()
}

func (a *assets) serve(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := a.byPath[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Type", f.kind)
	reply(w, r, http.StatusOK, f.etag, f.raw, f.small)
}

// reply sends a body, or the word that the client has it.
func reply(w http.ResponseWriter, r *http.Request, status int, etag string, raw, small []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if etag != "" {
		h.Set("ETag", etag)
		if status == http.StatusOK && has(r.Header.Get("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	body := raw
	if small != nil && acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = small
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// has says whether a list of entity tags has one; a proxy that compresses
// makes tags weak.
func has(list, etag string) bool {
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == etag {
			return true
		}
	}
	return false
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" {
			q = strings.ReplaceAll(q, " ", "")
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}
