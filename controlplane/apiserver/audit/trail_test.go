package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/schema"
)

const rules = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:kube-scheduler"]
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  resources: [{group: "", resources: [configmaps]}]
  omitManagedFields: true
- level: Request
`

func begin(t *testing.T, policy string, cfg Config) (*Trail, string) {
	t.Helper()
	dir := t.TempDir()
	cfg.PolicyFile, cfg.LogPath = filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "log", "audit.log")
	if err := os.WriteFile(cfg.PolicyFile, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	trail, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return trail, cfg.LogPath
}

// lines reads the log after the trail has ended.
func lines(t *testing.T, trail *Trail, path string) []auditv1.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := trail.Run(ctx); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []auditv1.Event
	for line := range bytes.Lines(data) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

func asked(verb, resource, name, who string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: who}, Verb: verb, Namespace: "default", APIVersion: "v1", Resource: resource, Name: name, ResourceRequest: true,
		Path: "/api/v1/namespaces/default/" + resource + "/" + name,
	}
}

func one(t *testing.T, trail *Trail, verb, resource, who string, o schema.Object, panicked any) {
	t.Helper()
	a := asked(verb, resource, "thing", who)
	r, e, err := trail.Begin(httptest.NewRequestWithContext(t.Context(), "PUT", a.Path, nil), "id-1", time.Now(), a, verb == "watch")
	if err != nil {
		t.Fatal(err)
	}
	audit.AddAuditAnnotation(r.Context(), "test.writ.dev/note", "seen")
	if o != nil {
		e.Request(schema.ResourceOf(o), "", o)
		if e.Bodies() {
			e.Response(o)
		}
	}
	e.Started(201)
	e.End(panicked)
}

func TestLevels(t *testing.T) {
	trail, path := begin(t, rules, Config{})
	meta := metav1.ObjectMeta{Name: "thing", Namespace: "default", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: meta, Data: map[string]string{"k": "v"}}
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, ObjectMeta: meta, Data: map[string][]byte{"k": []byte("hidden")}}
	one(t, trail, "update", "configmaps", "alice", cm, nil)
	one(t, trail, "update", "secrets", "alice", secret, nil)
	one(t, trail, "update", "configmaps", "system:kube-scheduler", cm, nil)
	one(t, trail, "watch", "pods", "bob", nil, nil)
	one(t, trail, "get", "pods", "bob", nil, "broken")

	got := lines(t, trail, path)
	var short []string
	for _, e := range got {
		short = append(short, strings.Join([]string{string(e.Level), string(e.Stage), e.User.Username, e.Verb, e.ObjectRef.Resource}, " "))
	}
	want := []string{
		"RequestResponse ResponseComplete alice update configmaps",
		"Metadata ResponseComplete alice update secrets",
		"Request ResponseStarted bob watch pods", "Request ResponseComplete bob watch pods",
		"Request Panic bob get pods",
	}
	if strings.Join(short, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(short, "\n"), strings.Join(want, "\n"))
	}
	if e := got[0]; e.RequestObject == nil || e.ResponseObject == nil || strings.Contains(string(e.RequestObject.Raw), "managedFields") {
		t.Errorf("bodies of the ConfigMap: %s %s", e.RequestObject, e.ResponseObject)
	}
	if e := got[0]; e.ResponseStatus.Code != 201 || e.AuditID != "id-1" || e.Annotations["test.writ.dev/note"] != "seen" {
		t.Errorf("event of the ConfigMap: %+v", e)
	}
	if e := got[1]; e.RequestObject != nil || e.ResponseObject != nil {
		t.Errorf("a Secret was written: %s", e.RequestObject.Raw)
	}
	if e := got[4]; e.ResponseStatus.Code != 500 || e.ResponseStatus.Message != "APIServer panic'd: broken" {
		t.Errorf("event of the panic: %+v", e.ResponseStatus)
	}
}

func TestStrictRefuses(t *testing.T) {
	for mode, refused := range map[string]bool{Blocking: false, BlockingStrict: true} {
		trail, path := begin(t, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]", Config{Mode: mode})
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Dir(path), nil, 0o600); err != nil { // a file where the folder was
			t.Fatal(err)
		}
		a := asked("get", "pods", "p", "eve")
		_, _, err := trail.Begin(httptest.NewRequestWithContext(t.Context(), "GET", a.Path, nil), "id", time.Now(), a, false)
		if (err != nil) != refused {
			t.Errorf("%s: error %v, want refused = %v", mode, err, refused)
		}
	}
}

func TestBatchIsWrittenAtTheEnd(t *testing.T) {
	trail, path := begin(t, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]", Config{Mode: Batch, MaxEventSize: 1 << 20})
	for range 10 {
		one(t, trail, "get", "pods", "bob", nil, nil)
	}
	if got := len(lines(t, trail, path)); got != 20 {
		t.Errorf("%d events, want 20", got)
	}
}

func TestRefusedConfig(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(good, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no policy": {Config{PolicyFile: filepath.Join(dir, "none"), LogPath: "-"}, "read audit policy"},
		"format":    {Config{PolicyFile: good, LogPath: "-", Format: "xml"}, `format "xml"`},
		"mode":      {Config{PolicyFile: good, LogPath: "-", Mode: "never"}, `mode "never"`},
		"folder":    {Config{PolicyFile: good, LogPath: filepath.Join(good, "x")}, "open audit log"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestNilRecordsNothing(t *testing.T) {
	var trail *Trail
	a := asked("get", "pods", "p", "eve")
	r := httptest.NewRequestWithContext(t.Context(), "GET", a.Path, nil)
	got, e, err := trail.Begin(r, "id", time.Now(), a, false)
	if got != r || e != nil || err != nil {
		t.Fatalf("Begin = %v %v %v", got, e, err)
	}
	e.Request(nil, "", &corev1.Pod{})
	e.Patch(nil)
	e.Started(200)
	e.End(nil)
	if n := testing.AllocsPerRun(100, func() {
		_, e, _ := trail.Begin(r, "id", time.Time{}, nil, false)
		e.Started(200)
		e.End(nil)
	}); n != 0 {
		t.Errorf("%v allocations for a request that is not recorded", n)
	}
}
