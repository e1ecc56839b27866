package apiserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// TestDeletesWhatListShows: every selectable field of every kind, asked by LIST,
// by WATCH and by DELETE of the collection, gives one answer.
func TestDeletesWhatListShows(t *testing.T) {
	c := newCluster(t)
	cs, ctx := c.clientset(t, "admin"), t.Context()
	job := func(name string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "x"}}}}}}
	}
	for _, err := range []error{
		make1(cs.CoreV1().Pods("default").Create(ctx, pod("p"), metav1.CreateOptions{})),
		make1(cs.BatchV1().Jobs("default").Create(ctx, job("a"), metav1.CreateOptions{})),
		make1(cs.BatchV1().Jobs("default").Create(ctx, job("b"), metav1.CreateOptions{})),
		make1(cs.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})),
		make1(cs.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})),
		make1(cs.CoreV1().Events("default").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Source: corev1.EventSource{Component: "x"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}}, metav1.CreateOptions{})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := func(method, path string) (code int, names []string) {
		r := c.serve("admin", method, path, "")
		var l struct {
			Items []struct{ Metadata metav1.ObjectMeta }
		}
		if err := json.Unmarshal(r.Body.Bytes(), &l); err != nil {
			t.Fatalf("%s %s: %d %s", method, path, r.Code, r.Body)
		}
		for _, it := range l.Items {
			names = append(names, it.Metadata.Name)
		}
		return r.Code, names
	}
	stream := c.http(t)
	watched := func(path string) (names []string) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.addr+path+"&watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer admin")
		resp, err := stream.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for dec := json.NewDecoder(resp.Body); ; {
			var e struct {
				Type   string
				Object struct{ Metadata metav1.ObjectMeta }
			}
			if err := dec.Decode(&e); err != nil {
				t.Fatalf("watch %s: %s %v", path, resp.Status, err)
			}
			if e.Type != "ADDED" {
				return names
			}
			names = append(names, e.Object.Metadata.Name)
		}
	}
	shown := 0
	for _, r := range schema.Resources {
		base := "/apis/" + r.Group + "/" + r.Version + "/"
		if r.Group == "" {
			base = "/api/" + r.Version + "/"
		}
		if r.Namespaced {
			base += "namespaces/default/"
		}
		for _, field := range append([]string{"metadata.name", "metadata.namespace", "no.such"}, r.SelectableFields...) {
			for _, term := range []string{"=", "!=", "=0", "!=0", "=false", "!=false", "=true", "=Pending", "!=Pending", "=p", "=x", "!=default", "=default"} {
				q := "?fieldSelector=" + url.QueryEscape(field+term)
				code, want := names("GET", base+r.Plural+q)
				gone, got := names("DELETE", base+r.Plural+q+"&dryRun=All")
				if gone == http.StatusMethodNotAllowed {
					continue // namespaces
				}
				if code != gone || !slices.Equal(got, want) {
					t.Errorf("%s %s%s: LIST shows %d %v, DELETE takes %d %v", r, field, term, code, want, gone, got)
				}
				if code == http.StatusOK {
					if got := watched(base + r.Plural + q); !slices.Equal(got, want) {
						t.Errorf("%s %s%s: LIST shows %v, WATCH %v", r, field, term, want, got)
					}
				}
				shown += len(want)
			}
		}
	}
	if shown < 50 {
		t.Errorf("only %d objects were selected: the test asks nothing", shown)
	}
	if _, got := names("DELETE", "/apis/batch/v1/namespaces/default/jobs?fieldSelector="+url.QueryEscape("status.successful!=0")); len(got) != 0 {
		t.Errorf("jobs %v are deleted, none of which is selected", got)
	}
}

func make1[T any](_ T, err error) error { return err }
