package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/controlplane/apiserver"
)

// stream reads the frames of a JSON watch.
type stream struct {
	t      *testing.T
	sc     *bufio.Scanner
	resp   *http.Response
	cancel context.CancelFunc
}

type frame struct {
	Type   string
	Object struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Code     int
		Reason   string
		Rows     []struct {
			Cells  []any
			Object struct{ Metadata metav1.ObjectMeta }
		}
		ColumnDefinitions []metav1.TableColumnDefinition
	}
}

func (f frame) String() string {
	return f.Type + " " + f.Object.Metadata.Name
}

func (c *cluster) watch(t *testing.T, path string, query url.Values, headers ...string) *stream {
	t.Helper()
	query.Set("watch", "true")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.addr+path+"?"+query.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer admin")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.http(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("watch %s: %s", path, resp.Status)
	}
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	return &stream{t: t, sc: sc, resp: resp, cancel: cancel}
}

func (s *stream) next() frame {
	s.t.Helper()
	var f frame
	if !s.sc.Scan() {
		s.t.Fatalf("watch has ended: %v", s.sc.Err())
	}
	if err := json.Unmarshal(s.sc.Bytes(), &f); err != nil {
		s.t.Fatalf("frame %s: %v", s.sc.Text(), err)
	}
	return f
}

func (s *stream) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		if got := s.next().String(); got != w {
			s.t.Fatalf("event %q, want %q", got, w)
		}
	}
}

func mustCreate(t *testing.T, cs *kubernetes.Clientset, cm *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	made, err := cs.CoreV1().ConfigMaps(cm.Namespace).Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const cmPath = "/api/v1/namespaces/default/configmaps"

func TestWatchResume(t *testing.T) {
	c := newCluster(t)
	cs := c.clientset(t, "admin")
	first := mustCreate(t, cs, configMap(1))
	second := mustCreate(t, cs, configMap(2))
	if err := cs.CoreV1().ConfigMaps("default").Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// From a version on: what came after it, and then what comes.
	w := c.watch(t, cmPath, url.Values{"resourceVersion": {first.ResourceVersion}})
	w.expect("ADDED "+second.Name, "DELETED "+first.Name)
	mustCreate(t, cs, configMap(3))
	w.expect("ADDED cm-000003")

	// From a list on: no gap, nothing twice.
	l, err := cs.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w = c.watch(t, cmPath, url.Values{"resourceVersion": {l.ResourceVersion}})
	mustCreate(t, cs, configMap(4))
	w.expect("ADDED cm-000004")

	// A deletion carries the version of the deletion, so that a client that
	// resumes from it does not see it again.
	if err := cs.CoreV1().ConfigMaps("default").Delete(t.Context(), "cm-000004", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := w.next()
	w = c.watch(t, cmPath, url.Values{"resourceVersion": {gone.Object.Metadata.ResourceVersion}})
	mustCreate(t, cs, configMap(5))
	w.expect("ADDED cm-000005")
}

func TestWatchInitialEvents(t *testing.T) {
	c := newCluster(t)
	cs := c.clientset(t, "admin")
	for i := range 3 {
		mustCreate(t, cs, configMap(i))
	}
	w := c.watch(t, cmPath, url.Values{"sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}, "allowWatchBookmarks": {"true"}})
	w.expect("ADDED cm-000000", "ADDED cm-000001", "ADDED cm-000002")
	b := w.next()
	if b.Type != "BOOKMARK" || b.Object.Kind != "ConfigMap" || b.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] != "true" || b.Object.Metadata.ResourceVersion == "" {
		t.Fatalf("end of initial events: %+v", b)
	}
	mustCreate(t, cs, configMap(3))
	w.expect("ADDED cm-000003")
	// The bookmark's version resumes after the initial events.
	w = c.watch(t, cmPath, url.Values{"resourceVersion": {b.Object.Metadata.ResourceVersion}})
	w.expect("ADDED cm-000003")
}

func TestWatchSelectors(t *testing.T) {
	c := newCluster(t)
	cs := c.clientset(t, "admin")
	c.namespace(t, "other")
	w := c.watch(t, cmPath, url.Values{"labelSelector": {"tier=front"}, "resourceVersion": {"0"}})
	byName := c.watch(t, cmPath, url.Values{"fieldSelector": {"metadata.name=cm-000002"}, "resourceVersion": {"0"}})
	mustCreate(t, cs, configMap(1))
	elsewhere := configMap(2)
	elsewhere.Namespace, elsewhere.Labels = "other", map[string]string{"tier": "front"}
	mustCreate(t, cs, elsewhere)
	label := func(v string) {
		t.Helper()
		body := fmt.Sprintf(`{"metadata":{"labels":{"tier":%s}}}`, v)
		if _, err := cs.CoreV1().ConfigMaps("default").Patch(t.Context(), "cm-000001", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"front"`)
	w.expect("ADDED cm-000001")
	if _, err := cs.CoreV1().ConfigMaps("default").Patch(t.Context(), "cm-000001", types.MergePatchType, []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.expect("MODIFIED cm-000001")
	label(`"back"`)
	gone := w.next()
	if gone.String() != "DELETED cm-000001" || gone.Object.Metadata.Labels["tier"] != "front" {
		t.Fatalf("object that no longer matches: %v, labels %v", gone, gone.Object.Metadata.Labels)
	}
	label(`null`)
	if err := cs.CoreV1().ConfigMaps("default").Delete(t.Context(), "cm-000001", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	last := configMap(3)
	last.Labels = map[string]string{"tier": "front"}
	mustCreate(t, cs, last)
	w.expect("ADDED cm-000003") // nothing of cm-000001 in between
	mustCreate(t, cs, configMap(2))
	byName.expect("ADDED cm-000002")
}

func TestWatchTable(t *testing.T) {
	c := newCluster(t)
	cs := c.clientset(t, "admin")
	mustCreate(t, cs, configMap(1))
	w := c.watch(t, cmPath, url.Values{"resourceVersion": {"0"}}, "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
	mustCreate(t, cs, configMap(2))
	first, second := w.next(), w.next()
	if first.Object.Kind != "Table" || len(first.Object.ColumnDefinitions) != 3 || len(first.Object.Rows) != 1 || first.Object.Rows[0].Cells[0] != "cm-000001" {
		t.Fatalf("first event: %+v", first)
	}
	if len(second.Object.ColumnDefinitions) != 0 || second.Object.Rows[0].Object.Metadata.Name != "cm-000002" || second.Object.Rows[0].Object.Metadata.UID == "" {
		t.Fatalf("second event: %+v", second)
	}
}

func TestWatchBookmarksAndTimeout(t *testing.T) {
	c := newCluster(t, func(cfg *apiserver.Config) { cfg.BookmarkEvery = 50 * time.Millisecond })
	cs := c.clientset(t, "admin")
	made := mustCreate(t, cs, configMap(1))
	w := c.watch(t, "/api/v1/pods", url.Values{"resourceVersion": {made.ResourceVersion}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"1"}})
	newer := mustCreate(t, cs, configMap(2))
	// Bookmarks of pods move on with changes of other resources.
	deadline := time.Now().Add(5 * time.Second)
	for w.next().Object.Metadata.ResourceVersion != newer.ResourceVersion {
		if time.Now().After(deadline) {
			t.Fatalf("no bookmark reaches %s", newer.ResourceVersion)
		}
	}
	began := time.Now()
	for w.sc.Scan() {
	}
	if err := w.sc.Err(); err != nil || time.Since(began) > 3*time.Second {
		t.Fatalf("end of the watch: %v after %v", err, time.Since(began))
	}
}

func TestWatchProtobuf(t *testing.T) {
	c := newCluster(t)
	cfg := c.config("admin")
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w, err := cs.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	cm := configMap(1)
	cm.Labels = map[string]string{"a": "b"}
	mustCreate(t, cs, cm)
	cm.Labels = nil
	if _, err := cs.CoreV1().ConfigMaps("default").Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ADDED", "DELETED"} {
		e := <-w.ResultChan()
		got, ok := e.Object.(*corev1.ConfigMap)
		if string(e.Type) != want || !ok || got.Labels["a"] != "b" {
			t.Fatalf("event %s %v, want %s", e.Type, e.Object, want)
		}
	}
}

func TestWatchEndsWithServer(t *testing.T) {
	var w *stream
	t.Run("cluster", func(t *testing.T) {
		c := newCluster(t)
		w = &stream{}
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, c.addr+cmPath+"?watch=1", nil)
		req.Header.Set("Authorization", "Bearer admin")
		resp, err := c.http(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		w.resp = resp
	})
	defer w.resp.Body.Close()
	if _, err := bufio.NewReader(w.resp.Body).ReadByte(); err == nil {
		t.Fatal("watch goes on after the server has ended")
	}
}
