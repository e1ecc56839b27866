package apiserver_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/controlplane/apiserver"
)

func names(l *corev1.ConfigMapList) string {
	var all []string
	for _, cm := range l.Items {
		all = append(all, strings.TrimPrefix(cm.Name, "cm-00000"))
	}
	return strings.Join(all, " ")
}

// TestPages checks that all pages of a list show the state of the first.
func TestPages(t *testing.T) {
	c := newCluster(t, func(cfg *apiserver.Config) { cfg.ContinueFor = 300 * time.Millisecond })
	cs, ctx := c.clientset(t, "admin"), t.Context()
	for i := range 5 {
		mustCreate(t, cs, configMap(i))
	}
	cms := cs.CoreV1().ConfigMaps("default")
	first, err := cms.List(ctx, metav1.ListOptions{Limit: 2})
	if err != nil || names(first) != "0 1" || first.Continue == "" || *first.RemainingItemCount != 3 {
		t.Fatalf("first page: %q %+v %v", names(first), first.ListMeta, err)
	}
	mustCreate(t, cs, configMap(9))
	if err := cms.Delete(ctx, "cm-000003", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second, err := cms.List(ctx, metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil || names(second) != "2 3" || second.ResourceVersion != first.ResourceVersion {
		t.Fatalf("second page: %q %+v %v", names(second), second.ListMeta, err)
	}
	third, err := cms.List(ctx, metav1.ListOptions{Limit: 2, Continue: second.Continue})
	if err != nil || names(third) != "4" || third.Continue != "" {
		t.Fatalf("third page: %q %+v %v", names(third), third.ListMeta, err)
	}
	if _, err := cms.List(ctx, metav1.ListOptions{Continue: first.Continue, ResourceVersion: "5"}); !apierrors.IsBadRequest(err) {
		t.Fatalf("continue with a version: %v", err)
	}

	// The pages expire, also when they are read all the time.
	for began := time.Now(); err == nil && time.Since(began) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		_, err = cms.List(ctx, metav1.ListOptions{Limit: 2, Continue: first.Continue})
	}
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
		t.Fatalf("expired token: %v", err)
	}
	rest, err := cms.List(ctx, metav1.ListOptions{Continue: status.Status().Continue})
	if err != nil || names(rest) != "2 4 9" {
		t.Fatalf("inconsistent rest: %q %v", names(rest), err)
	}
	all, err := cms.List(ctx, metav1.ListOptions{Limit: 2, LabelSelector: "none=1"})
	if err != nil || len(all.Items) != 0 || all.Continue != "" {
		t.Fatalf("pages of nothing: %+v %v", all, err)
	}
}

// TestVersions checks what a LIST at a version shows.
func TestVersions(t *testing.T) {
	c := newCluster(t)
	cs, ctx := c.clientset(t, "admin"), t.Context()
	var versions []string
	for i := range 3 {
		versions = append(versions, mustCreate(t, cs, configMap(i)).ResourceVersion)
	}
	cms := cs.CoreV1().ConfigMaps("default")
	if err := cms.Delete(ctx, "cm-000000", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		version string
		match   metav1.ResourceVersionMatch
		limit   int64
		want    string
	}{
		{"", "", 0, "1 2"},
		{"0", "", 0, "1 2"},
		{versions[0], metav1.ResourceVersionMatchNotOlderThan, 0, "1 2"},
		{versions[1], metav1.ResourceVersionMatchExact, 0, "0 1"},
		{versions[0], metav1.ResourceVersionMatchExact, 0, "0"},
		{versions[2], "", 10, "0 1 2"},
	} {
		l, err := cms.List(ctx, metav1.ListOptions{ResourceVersion: tt.version, ResourceVersionMatch: tt.match, Limit: tt.limit})
		if err != nil || names(l) != tt.want {
			t.Errorf("list at %q %s: %q %v, want %q", tt.version, tt.match, names(l), err, tt.want)
		}
	}
	r := c.do(t, "admin", "GET", cmPath+"?resourceVersion=99999999999999", "")
	if r.code != 504 || r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, string(metav1.CauseTypeResourceVersionTooLarge)) {
		t.Errorf("list at a version to come: %d %s", r.code, r.body)
	}
}

// TestEncodings checks that a list says the same in every encoding.
func TestEncodings(t *testing.T) {
	c := newCluster(t)
	c.fill(t, 30)
	ctx := t.Context()
	lists := map[string]*corev1.PodList{}
	for _, ct := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		cfg := c.config("admin")
		cfg.ContentType = ct
		cs, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if lists[ct], err = cs.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 20}); err != nil {
			t.Fatal(err)
		}
		lists[ct].Continue = ""
	}
	a, _ := json.Marshal(lists["application/json"])
	b, _ := json.Marshal(lists["application/vnd.kubernetes.protobuf"])
	if string(a) != string(b) || len(lists["application/json"].Items) != 20 {
		t.Errorf("JSON and protobuf differ:\n%.500s\n%.500s", a, b)
	}
	y := c.do(t, "admin", "GET", "/api/v1/pods?limit=1", "", "Accept: application/yaml")
	if !strings.HasPrefix(y.body, "apiVersion: v1\nitems:\n- metadata:") {
		t.Errorf("YAML: %.200s", y.body)
	}
	z := c.do(t, "admin", "GET", "/api/v1/pods", "", "Accept-Encoding: gzip")
	if z.header.Get("Content-Encoding") != "" {
		t.Error("a client of the same machine gets gzip")
	}
}

func TestTableList(t *testing.T) {
	c := newCluster(t)
	c.fill(t, 2)
	for _, tt := range []struct{ accept, query, object string }{
		{"application/json;as=Table;v=v1;g=meta.k8s.io", "", "PartialObjectMetadata"},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "?includeObject=Object", "Pod"},
		{"application/json;as=Table;v=v1beta1;g=meta.k8s.io", "?includeObject=None", ""},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io", "", "PartialObjectMetadata"},
	} {
		r := c.do(t, "admin", "GET", "/api/v1/pods"+tt.query, "", "Accept: "+tt.accept)
		var tab struct {
			metav1.TypeMeta
			Metadata          metav1.ListMeta
			ColumnDefinitions []metav1.TableColumnDefinition
			Rows              []struct {
				Cells  []any
				Object struct {
					Kind     string
					Metadata metav1.ObjectMeta
				}
			}
		}
		if err := json.Unmarshal([]byte(r.body), &tab); err != nil || tab.Kind != "Table" || len(tab.Rows) != 2 || tab.Metadata.ResourceVersion == "" {
			t.Fatalf("%s%s: %v %.300s", tt.accept, tt.query, err, r.body)
		}
		row := tab.Rows[1]
		if len(row.Cells) != len(tab.ColumnDefinitions) || fmt.Sprint(row.Cells[:4]) != "[pod-000002 0/1 Pending 0]" {
			t.Errorf("row: %v", row.Cells)
		}
		if row.Object.Kind != tt.object || tt.object != "" && row.Object.Metadata.UID == "" {
			t.Errorf("object of the row: %+v, want %s", row.Object, tt.object)
		}
	}
}

// handmade writes a continue token by hand, as only its own client would.
func handmade(version int64, start string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":%d,"start":%q}`, version, start))
}

// TestTokenVersions: any version below 0 goes on in the newest state, one that
// is yet to come is waited for, and a bad token is said before what else is
// wrong, all as upstream.
func TestTokenVersions(t *testing.T) {
	c := newCluster(t)
	cs, ctx := c.clientset(t, "admin"), t.Context()
	for i := range 3 {
		mustCreate(t, cs, configMap(i))
	}
	cms := cs.CoreV1().ConfigMaps("default")
	for _, v := range []int64{-1, -2, math.MinInt64} {
		first, err := cms.List(ctx, metav1.ListOptions{Limit: 1, Continue: handmade(v, "default/cm-000001")})
		if err != nil || names(first) != "1" || first.Continue == "" {
			t.Fatalf("version %d: %q %+v %v", v, names(first), first, err)
		}
		rest, err := cms.List(ctx, metav1.ListOptions{Continue: first.Continue})
		if err != nil || names(rest) != "2" || rest.ResourceVersion != first.ResourceVersion {
			t.Errorf("the page after version %d: %q %+v %v", v, names(rest), rest.ListMeta, err)
		}
	}
	if _, err := cms.List(ctx, metav1.ListOptions{Continue: handmade(math.MaxInt64, "default/x")}); !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("a version to come: %v", err)
	}
	if _, err := cms.List(ctx, metav1.ListOptions{Continue: handmade(0, "default/x"), ResourceVersion: "5"}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "invalid continue token") {
		t.Errorf("a bad token with a version: %v", err)
	}
	one, err := cms.List(ctx, metav1.ListOptions{Continue: handmade(0, "x"), FieldSelector: "metadata.name=cm-000000"})
	if err != nil || names(one) != "0" {
		t.Errorf("a token with the name of one object: %q %v", names(one), err)
	}
}
