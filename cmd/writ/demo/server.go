// Package demo is the guestbook that the examples run: a web page, and behind
// it a store of guest entries. It ships inside the one binary so that a first
// cluster needs no registry.
//
// It owns its entries file alone. It promises to answer /readyz only when it
// can serve a page, and to end within a second of SIGTERM.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Config is everything the server needs from outside.
type Config struct {
	Addr    string // ":8080"
	Name    string // of the pod, shown on the page and by /whoami
	Version string // of the image
	// Greeting is the headline of the page.
	Greeting string
	// Store is the URL of the server that keeps the entries; "" keeps them here.
	Store string
	// File keeps the entries over restarts; "" keeps them in memory. Unused
	// with Store.
	File string
	// ReadyAfter holds /readyz back, to watch a rollout wait.
	ReadyAfter time.Duration
	Log        *slog.Logger
}

// Server is one replica of the guestbook.
type Server struct {
	cfg     Config
	entries entries
	started time.Time
}

// New returns a server; it starts nothing.
func New(cfg Config) *Server {
	if cfg.Greeting == "" {
		cfg.Greeting = "Guestbook"
	}
	s := &Server{cfg: cfg, started: time.Now()}
	if cfg.Store != "" {
		s.entries = &remote{url: strings.TrimSuffix(cfg.Store, "/"), client: &http.Client{Timeout: 3 * time.Second}}
	} else {
		s.entries = &local{file: cfg.File}
	}
	return s
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", s.cfg.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.cfg.Addr, err)
	}
	s.cfg.Log.Info("guestbook is served", "addr", l.Addr().String(), "pod", s.cfg.Name, "version", s.cfg.Version)
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(grace) //nolint:errcheck // the process ends either way
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("POST /{$}", s.sign)
	mux.HandleFunc("GET /entries", s.list)
	mux.HandleFunc("POST /entries", s.add)
	mux.HandleFunc("GET /whoami", s.whoami)
	mux.HandleFunc("GET /lookup", s.lookup)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if time.Since(s.started) < s.cfg.ReadyAfter {
		http.Error(w, "warming up", http.StatusServiceUnavailable)
		return
	}
	if _, err := s.entries.list(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) whoami(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "%s %s\n", s.cfg.Name, s.cfg.Version)
}

// lookup resolves ?host= with the pod's own resolver.
func (s *Server) lookup(w http.ResponseWriter, r *http.Request) {
	addrs, err := net.DefaultResolver.LookupHost(r.Context(), r.FormValue("host"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, strings.Join(addrs, " "))
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all, err := s.entries.list(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) //nolint:errcheck // the client is gone
}

func (s *Server) add(w http.ResponseWriter, r *http.Request) {
	var e Entry
	if err := json.NewDecoder(io.LimitReader(r.Body, maxEntry)).Decode(&e); err != nil {
		http.Error(w, "decode entry: "+err.Error(), http.StatusBadRequest)
		return
	}
	s.store(w, r, e, func() { w.WriteHeader(http.StatusCreated) })
}

func (s *Server) sign(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxEntry)
	e := Entry{Name: r.FormValue("name"), Text: r.FormValue("text")}
	s.store(w, r, e, func() { http.Redirect(w, r, "/", http.StatusSeeOther) })
}

func (s *Server) store(w http.ResponseWriter, r *http.Request, e Entry, done func()) {
	if err := e.check(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC().Truncate(time.Second)
	}
	if err := s.entries.add(r.Context(), e); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	done()
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	all, err := s.entries.list(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, map[string]any{ //nolint:errcheck // the client is gone
		"Greeting": s.cfg.Greeting, "Pod": s.cfg.Name, "Version": s.cfg.Version, "Entries": all,
	})
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Greeting}}</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:38rem;margin:3rem auto;padding:0 1rem;color:#1c2733}
form{display:flex;gap:.5rem;margin:1.5rem 0}input{flex:1;padding:.5rem;border:1px solid #c8d1da;border-radius:6px}
button{padding:.5rem 1rem;border:0;border-radius:6px;background:#2456d6;color:#fff}
li{margin:.4rem 0}footer{color:#6b7a89;font-size:.85rem;margin-top:2rem}
</style>
<h1>{{.Greeting}}</h1>
<form method="post"><input name="name" placeholder="name" required maxlength="60"><input name="text" placeholder="say something" required maxlength="500"><button>Sign</button></form>
<ul>{{range .Entries}}<li><b>{{.Name}}</b>: {{.Text}}</li>{{else}}<li>Be the first to sign.</li>{{end}}</ul>
<footer>served by {{.Pod}}, version {{.Version}}</footer>
`))
