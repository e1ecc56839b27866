package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// warned notes warnings of servers that would be printed.
type warned []string

func (w *warned) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// TestNoWarningsOfReads: a command that reads an old kind prints no warning of it.
func TestNoWarningsOfReads(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "v1 Endpoints is deprecated in v1.33+"`)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"EndpointsList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said := &warned{}
	rest.SetDefaultWarningHandler(said)
	t.Cleanup(func() { rest.SetDefaultWarningHandler(rest.WarningLogger{}) })
	c, err := (&access{kubeconfig: kubeconfig}).client()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(t.Context(), schema.ResourceFor[*corev1.Endpoints](), client.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(*said) > 0 {
		t.Errorf("printed: %q", *said)
	}
}
