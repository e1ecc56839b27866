//go:build upstream

package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writ-os/writ/ci/differential/exchange"
	"github.com/writ-os/writ/ci/differential/upstream"
)

// TestStorage: what one server has stored, the other serves from a copy of its
// etcd, for an object of every kind. Binaries: bin/upstream and
// bin/kube-apiserver, or $UPSTREAM and $KUBE_APISERVER.
func TestStorage(t *testing.T) {
	t.Run("ours read by upstream", func(t *testing.T) {
		dir, etcd := t.TempDir(), filepath.Join(t.TempDir(), "etcd")
		var want objects
		t.Run("write", func(t *testing.T) {
			s := startServer(t, dir)
			createAll(t, s)
			want = readAll(t, s, func(rv uint64) uint64 { return rv >> 20 })
		})
		copyTree(t, filepath.Join(dir, "store"), etcd)
		compare(t, want, readAll(t, startUpstream(t, t.TempDir(), etcd), nil))
	})
	t.Run("upstream's read by ours", func(t *testing.T) {
		dir, data := t.TempDir(), t.TempDir()
		var want objects
		t.Run("write", func(t *testing.T) {
			s := startUpstream(t, dir, "")
			createAll(t, s)
			want = readAll(t, s, nil)
		})
		copyTree(t, filepath.Join(dir, "etcd"), filepath.Join(data, "store"))
		compare(t, want, readAll(t, startServer(t, data), func(rv uint64) uint64 { return rv >> 20 }))
	})
}

// objects by path, as JSON.
type objects map[string]any

func startUpstream(t *testing.T, dir, etcd string) exchange.Server {
	t.Helper()
	binary := func(name, variable string) string {
		if v := os.Getenv(variable); v != "" {
			return v
		}
		return filepath.Join("..", "..", "bin", name)
	}
	u, err := upstream.Start(context.Background(), upstream.Config{Dir: dir, Etcd: etcd,
		Command: binary("upstream", "UPSTREAM"), APIServer: binary("kube-apiserver", "KUBE_APISERVER")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Stop)
	return u.Server()
}

// creations are the requests of all kinds that create what stays: the setup,
// and one object of each.
func creations(t *testing.T) []exchange.Request {
	t.Helper()
	files, err := filepath.Glob("testdata/kind-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no kinds: %v", err)
	}
	var all []exchange.Request
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := exchange.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range f.Exchanges {
			if i < 2 || strings.HasSuffix(e.Name, ": create") {
				e.Request.Header.Del("Save")
				all = append(all, e.Request)
			}
		}
	}
	return all
}

func createAll(t *testing.T, s exchange.Server) {
	t.Helper()
	f := &exchange.File{}
	for i, r := range creations(t) {
		f.Exchanges = append(f.Exchanges, &exchange.Exchange{Name: strconv.Itoa(i), Request: r})
	}
	err := f.Play(t.Context(), s, func(e *exchange.Exchange, got string) {
		// A second version of a kind, and a second file's setup, are there already.
		if !strings.HasPrefix(got, "20") && !strings.HasPrefix(got, "409") {
			t.Errorf("%s %s: %s", e.Request.Method, e.Request.Path, got)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readAll gets every object that createAll made. version maps a resource
// version to etcd's revision.
func readAll(t *testing.T, s exchange.Server, version func(uint64) uint64) objects {
	t.Helper()
	client, err := s.Client("admin", []string{"system:masters"})
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	for _, r := range creations(t) {
		path, _, _ := strings.Cut(r.Path, "?")
		if r.Method == http.MethodPost {
			var o struct{ Metadata struct{ Name string } }
			if err := json.Unmarshal([]byte(r.Body), &o); err != nil {
				t.Fatal(err)
			}
			path += "/" + o.Metadata.Name
		}
		if all[path], err = get(client, s.URL+path, version); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	return all
}

func get(client *http.Client, url string, version func(uint64) uint64) (map[string]any, error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var o map[string]any
	if err := json.Unmarshal(data, &o); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%d: %s", resp.StatusCode, data)
	}
	meta := o["metadata"].(map[string]any)
	rv, err := strconv.ParseUint(meta["resourceVersion"].(string), 10, 64)
	if err != nil {
		return nil, err
	}
	if version != nil {
		rv = version(rv)
	}
	meta["resourceVersion"] = rv
	return o, nil
}

// moving are objects that a server's own controllers write when it starts.
var moving = []string{"customresourcedefinitions", "apiservices", "servicecidrs", "flowschemas", "prioritylevelconfigurations", "ipaddresses"}

func compare(t *testing.T, want, got objects) {
	t.Helper()
	t.Logf("%d objects", len(want))
	for path, w := range want {
		g := got[path]
		if w, ok := w.(map[string]any); ok && slices.ContainsFunc(moving, func(part string) bool { return strings.Contains(path, part) }) {
			if g, ok := g.(map[string]any); ok {
				for _, o := range []map[string]any{w, g} {
					delete(o["metadata"].(map[string]any), "resourceVersion")
					delete(o["metadata"].(map[string]any), "managedFields")
					delete(o, "status")
				}
			}
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s (-written +read):\n%s", path, diff)
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// etcd wants its directory for itself.
	if err := os.Chmod(to, 0o700); err != nil {
		t.Fatal(err)
	}
}
