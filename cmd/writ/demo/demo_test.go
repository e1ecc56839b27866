package demo

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func serve(t *testing.T, cfg Config) string {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	srv := httptest.NewServer(New(cfg).Handler())
	t.Cleanup(srv.Close)
	return srv.URL
}

// A front end shows what the store keeps, and the store keeps it over restarts.
func TestEntriesSurvive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "entries.json")
	store := serve(t, Config{File: file})
	front := serve(t, Config{Store: store, Name: "web-1", Version: "v1", Greeting: "Hello <b>"})

	if resp, err := http.PostForm(front, url.Values{"name": {"Ada"}, "text": {"<script>"}}); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("sign: %v %v", resp, err)
	}
	if err := Greet(t.Context(), front, Entry{Name: "Job", Text: "was here"}); err != nil {
		t.Fatal(err)
	}
	again := serve(t, Config{File: file})
	code, page := get(t, again)
	if code != 200 || !strings.Contains(page, "Ada") || !strings.Contains(page, "was here") {
		t.Fatalf("page after restart: %d %s", code, page)
	}
	if _, page = get(t, front); strings.Contains(page, "<script>") || !strings.Contains(page, "Hello &lt;b&gt;") {
		t.Fatalf("page is not escaped: %s", page)
	}
	if _, who := get(t, front+"/whoami"); who != "web-1 v1\n" {
		t.Fatalf("whoami: %q", who)
	}
}

func TestRefusals(t *testing.T) {
	u := serve(t, Config{})
	for _, body := range []string{"{", `{"name":"x"}`, `{"name":"x","text":"` + strings.Repeat("y", 501) + `"}`} {
		resp, err := http.Post(u+"/entries", "application/json", strings.NewReader(body))
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("entry %.20q: %v %v", body, resp, err)
		}
	}
}

// A front end is not ready before its time, nor without its store.
func TestReady(t *testing.T) {
	if code, _ := get(t, serve(t, Config{ReadyAfter: time.Hour})+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready before its time: %d", code)
	}
	if code, body := get(t, serve(t, Config{Store: "http://127.0.0.1:1"})+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready without its store: %d %s", code, body)
	}
	if code, _ := get(t, serve(t, Config{})+"/readyz"); code != http.StatusOK {
		t.Errorf("not ready: %d", code)
	}
}
