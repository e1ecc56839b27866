package apiserver_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// volatile are the parts of an answer that differ from run to run.
var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9]{6,}\b`)

// TestErrors holds every refusal to its code, reason and text: clients branch
// on them.
func TestErrors(t *testing.T) {
	c := newCluster(t)
	if _, err := c.clientset(t, "admin").CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const pods = "/api/v1/namespaces/default/pods"
	const cms = "/api/v1/namespaces/default/configmaps"
	const body = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"a":"b"}}`
	var out strings.Builder
	for _, r := range []struct {
		user, method, path, body string
		headers                  []string
	}{
		{"", "GET", pods, "", nil},
		{"bad", "GET", pods, "", nil},
		{"alice", "GET", pods, "", nil},
		{"alice", "GET", pods + "/p", "", nil},
		{"alice", "GET", "/api/v1/nodes", "", nil},
		{"alice", "GET", "/api/v1/namespaces/default", "", nil},
		{"alice", "PUT", "/apis/apps/v1/namespaces/x/deployments/web/scale", "{}", nil},
		{"alice", "GET", "/metrics", "", nil},
		{"reader", "GET", pods + "/p/log", "", nil},
		{"admin", "GET", "/nothing", "", nil},
		{"admin", "GET", "/api/v2/pods", "", nil},
		{"admin", "GET", "/api/v1/nothings", "", nil},
		{"admin", "GET", "/apis/nothing.io/v1", "", nil},
		{"admin", "GET", "/apis/nothing.io/v1/things", "", nil},
		{"admin", "GET", "/api/v1/pods/p", "", nil},
		{"admin", "GET", "/api/v1/namespaces/default/nodes", "", nil},
		{"admin", "GET", pods + "/p/nothing", "", nil},
		{"admin", "GET", "/api/v1/watch", "", nil},
		{"admin", "GET", pods + "/missing", "", nil},
		{"admin", "DELETE", pods + "/missing", "", nil},
		{"admin", "GET", "/apis/apps/v1/namespaces/default/deployments/missing", "", nil},
		{"admin", "POST", pods + "/p", "{}", nil},
		{"admin", "PUT", pods, "{}", nil},
		{"admin", "POST", "/api/v1/pods", "{}", nil},
		{"admin", "DELETE", "/apis/apps/v1/namespaces/default/deployments/missing/scale", "", nil},
		{"admin", "POST", pods, "", nil},
		{"admin", "POST", pods, "[]", nil},
		{"admin", "POST", pods, "{", nil},
		{"admin", "POST", pods, `{"kind":"Service","apiVersion":"v1"}`, nil},
		{"admin", "POST", pods, `{"kind":"Pod","apiVersion":"v2"}`, nil},
		{"admin", "POST", pods, `{"kind":"Pod","apiVersion":"v1","spec":{"containers":"x"}}`, nil},
		{"admin", "POST", cms + "?fieldValidation=Strict", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"dat":{},"data":{"a":"1","a":"2"}}`, nil},
		{"admin", "POST", cms + "?fieldValidation=Maybe", body, nil},
		{"admin", "POST", cms + "?dryRun=Some", body, nil},
		{"admin", "POST", cms + "?fieldManager=" + strings.Repeat("x", 129), body, nil},
		{"admin", "POST", "/api/v1/namespaces/other/configmaps", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"default"}}`, nil},
		{"admin", "PUT", cms + "/d", body, nil},
		{"admin", "PUT", cms + "/d", `{"kind":"ConfigMap","apiVersion":"v1"}`, nil},
		{"admin", "POST", cms, body, []string{"Content-Type: text/plain"}},
		{"admin", "PATCH", cms + "/c", "{}", []string{"Content-Type: application/json"}},
		{"admin", "PATCH", pods + "/p", "{", []string{"Content-Type: application/merge-patch+json"}},
		{"admin", "PATCH", pods + "/p", "{}", []string{"Content-Type: application/apply-patch+yaml"}},
		{"admin", "PATCH", "/apis/writ.dev/v1alpha1/clusters/cluster", "{}", []string{"Content-Type: application/strategic-merge-patch+json"}},
		{"admin", "POST", cms, strings.Repeat("x", 3<<20+1), nil},
		{"admin", "GET", pods, "", []string{"Accept: text/html"}},
		{"admin", "GET", "/apis/writ.dev/v1alpha1/commits", "", []string{"Accept: application/vnd.kubernetes.protobuf"}},
		{"admin", "GET", pods + "?labelSelector=a%3D%3D%3Db", "", nil},
		{"admin", "GET", pods + "?fieldSelector=spec.nothing%3Dx", "", nil},
		{"admin", "GET", cms + "?fieldSelector=data%3Dx", "", nil},
		{"admin", "GET", pods + "?limit=x", "", nil},
		{"admin", "GET", pods + "?continue=x", "", nil},
		{"admin", "GET", pods + "?resourceVersion=x", "", nil},
		{"admin", "GET", pods + "?resourceVersionMatch=Exact", "", nil},
		{"admin", "GET", pods + "?sendInitialEvents=true", "", nil},
		{"admin", "GET", pods + "?watch=1&sendInitialEvents=true", "", nil},
		{"admin", "GET", pods + "?watch=1&resourceVersion=1", "", nil},
		{"admin", "GET", pods + "?includeObject=Some", "", []string{"Accept: application/json;as=Table;g=meta.k8s.io;v=v1"}},
		{"admin", "GET", pods + "/p/log?container=x", "", nil},
		{"admin", "GET", pods + "/p/log?tailLines=-1", "", nil},
		{"admin", "GET", pods + "/missing/log", "", nil},
		{"admin", "POST", pods + "/p/exec?command=ls", "", nil},
		{"admin", "DELETE", pods + "/p", `{"propagationPolicy":"Sideways"}`, nil},
		{"admin", "DELETE", cms + "/c", `{"kind":"Pod"}`, nil},
		{"admin", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{}`, nil},
		{"admin", "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", nil},
		{"admin", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get"}}}`, nil},
		{"alice", "GET", pods, "", []string{"Impersonate-User: bob"}},
		{"admin", "GET", pods, "", []string{"Impersonate-Group: g"}},
	} {
		got := c.do(t, r.user, r.method, r.path, r.body, append([]string{"User-Agent: test/1"}, r.headers...)...)
		fmt.Fprintf(&out, "%s %s %.120s %.100s\n  %d ", orDash(r.user), r.method, r.path, strings.Join(append(r.headers, r.body), " "), got.code)
		var st metav1.Status
		if err := json.Unmarshal([]byte(got.body), &st); err != nil {
			fmt.Fprintf(&out, "%s %q\n", got.header.Get("Content-Type"), got.body)
			continue
		}
		if st.Kind != "Status" || st.APIVersion != "v1" || int(st.Code) != got.code || st.Status != metav1.StatusFailure {
			t.Errorf("%s %s: not a Status: %s", r.method, r.path, got.body)
		}
		details, _ := json.Marshal(st.Details)
		fmt.Fprintf(&out, "%s: %s %s\n", st.Reason, volatile.ReplaceAllString(st.Message, "N"), volatile.ReplaceAllString(string(details), "N"))
	}
	golden(t, "errors.golden", out.String())
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
