package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLogsQuery(t *testing.T) {
	now := time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		flags    logFlags
		services string
		boot     bool
		want     string
	}{
		{logFlags{tail: 200}, "", false, ""},
		{logFlags{tail: 200}, "a b", false, "query=a&query=b&tailLines=200"},
		{logFlags{tail: -1, since: "10m", follow: true}, "a", false, "follow=true&query=a&sinceTime=2026-11-22T01:50:00Z"},
		{logFlags{tail: -1, since: "2026-11-22T02:00:00.5+01:00", until: "1h"}, "a", false, "query=a&sinceTime=2026-11-22T01:00:00.5Z&untilTime=2026-11-22T01:00:00Z"},
		{logFlags{tail: 0, grep: "x y", boot: -1}, "kernel", true, "boot=-1&pattern=x y&query=kernel&tailLines=0"},
		{logFlags{follow: true}, "", false, "name a service: without one its names alone are printed"},
		{logFlags{since: "yesterday"}, "a", false, `"yesterday": want a duration like 10m or a time like 2026-11-22T02:00:00Z`},
		{logFlags{until: "-5m"}, "a", false, `"-5m": want a duration like 10m or a time like 2026-11-22T02:00:00Z`},
	} {
		q, err := c.flags.query(strings.Fields(c.services), c.boot, now)
		got := strings.NewReplacer("%3A", ":", "+", " ").Replace(q.Encode())
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v %s\n got %s\nwant %s", c.flags, c.services, got, c.want)
		}
	}
	for word, want := range map[string]string{"node/a": "a", "nodes/a.b": "a.b", "a": "", "pod/a": "", "node/": "", "node/a/b": ""} {
		if got, err := nodeName(word); got != want || (err == nil) != (want != "") {
			t.Errorf("nodeName(%q) = %q, %v", word, got, err)
		}
	}
}

// apiServer answers as an API server before a node with the service a does.
func apiServer(w http.ResponseWriter, r *http.Request) {
	const logs = "/api/v1/nodes/n1/proxy/logs/"
	switch q := r.URL.Query(); {
	case r.URL.Path == "/api/v1/nodes":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}}]}`)
	case r.URL.Path != logs:
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{Message: `nodes "n2" is forbidden: no`})
	case len(q) == 0:
		_, _ = io.WriteString(w, "kernel\na\n")
	case q.Get("query") == "a*":
		http.Error(w, "query: unsupported", http.StatusNotAcceptable)
	case q.Get("query") == "none":
		w.Header().Add("Writ-Log-Not-Found", "none")
		_, _ = io.WriteString(w, "\nlog not found for none\n")
	default:
		if slices.Contains(q["query"], "none") {
			w.Header().Add("Writ-Log-Not-Found", "none")
		}
		_, _ = io.WriteString(w, "line of "+q.Encode()+"\n")
	}
}

func TestLogs(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(apiServer))
	defer s.Close()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` + s.URL + `"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"logs node/n1", 0, "kernel\na\n"},
		{"logs node/n1 a", 0, "line of query=a&tailLines=200\n"},
		{"logs node/n1 a --boot -1 -f", 0, "line of boot=-1&follow=true&query=a\n"},
		{"logs node/n1 none", 1, "node n1 has no log of none: 'writ logs node/n1' prints what it has"},
		{"logs node/n1 a none", 1, "line of query=a&query=none&tailLines=200\nnode n1 has no log of none: 'writ logs node/n1' prints what it has"},
		{"logs node/n1 a*", 1, "query: unsupported"},
		{"logs node/n2 a", 1, `nodes "n2" is forbidden: no. Logs of a node need the right to get nodes/proxy: name credentials that have it with --kubeconfig; on a server root has admin.kubeconfig`},
		{"logs n1 a", 2, `"n1": want node/NAME; logs of pods: 'kubectl logs'`},
		{"__complete logs ", 0, "node/n1\nnode/n2\n:4\n"},
		{"__complete logs node/n1 ", 0, "kernel\na\n:4\n"},
		{"__complete logs node/n1 k", 0, "kernel\n:4\n"},
	} {
		// The last word is what shall be completed.
		words := strings.Split(c.args, " ")
		words = slices.Insert(words, slices.Index(words, "logs")+1, "--kubeconfig="+config)
		cmd := root()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(words)
		err := cmd.ExecuteContext(t.Context())
		got := out.String()
		if err != nil {
			got += err.Error()
		}
		if code := silently(t, err); code != c.code || got != c.want {
			t.Errorf("%s: %d\n got %q\nwant %q", c.args, code, got, c.want)
		}
	}
}

// silently is the exit code of an error.
func silently(t *testing.T, err error) int {
	t.Helper()
	quiet, openErr := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer quiet.Close()
	stderr := os.Stderr
	os.Stderr = quiet
	defer func() { os.Stderr = stderr }()
	return report(err)
}
