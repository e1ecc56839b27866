package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/apiserver/audit"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, nonResourceURLs: [/version]}
- {level: RequestResponse, resources: [{group: "", resources: [configmaps]}]}
- {level: Request, resources: [{group: "", resources: [secrets]}]}
- {level: Metadata}
`

// fragile panics when an object is created that is called boom.
type fragile struct{ apiserver.Registry }

func (f fragile) Create(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	if o.GetName() == "boom" {
		panic("boom")
	}
	return f.Registry.Create(ctx, r, o, w)
}

// serve has the handler answer a request; all of it is done when it returns.
func (c *cluster) serve(user, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+user)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.srv.Handler().ServeHTTP(w, r)
	return w
}

// TestAudit follows requests from the wire into the log.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	trail, err := audit.New(audit.Config{PolicyFile: policy, LogPath: log})
	if err != nil {
		t.Fatal(err)
	}
	run(t, trail.Run)
	c := newCluster(t, func(cfg *apiserver.Config) { cfg.Audit, cfg.Registry = trail, fragile{cfg.Registry} })
	const cms, pods = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
	cm := func(name string) string {
		return `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `"},"data":{"a":"b"}}`
	}
	for _, tt := range []struct {
		user, method, path, body string
		headers                  []string
		want                     string // the events, without RequestReceived
	}{
		{"admin", "GET", "/version", "", nil, ""},
		{"admin", "POST", cms, cm("a"), nil, "ResponseComplete create admin configmaps 201 RequestResponse asked answered"},
		{"admin", "PATCH", cms + "/a", `{"data":{"a":"c"}}`, []string{"Content-Type: application/merge-patch+json"}, "ResponseComplete patch admin configmaps 200 RequestResponse asked answered"},
		{"admin", "POST", "/api/v1/namespaces/default/secrets", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}`, nil, "ResponseComplete create admin secrets 201 Request asked"},
		{"admin", "GET", pods, "", nil, "ResponseComplete list admin pods 200 Metadata"},
		{"admin", "GET", pods + "/missing", "", nil, `ResponseComplete get admin pods 404 Metadata "pods \"missing\" not found"`},
		{"alice", "GET", pods, "", nil, `ResponseComplete list alice pods 403 Metadata "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""`},
		{"admin", "GET", pods, "", []string{"Impersonate-User: reader"}, "ResponseComplete list admin as reader by impersonate:user-info pods 200 Metadata"},
		{"alice", "GET", pods, "", []string{"Impersonate-User: reader"}, `ResponseComplete list alice pods 403 Metadata "pods is forbidden: User \"alice\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the namespace \"default\""`},
		{"bad", "GET", pods, "", nil, `ResponseStarted list  pods 401 Metadata "Authentication failed, attempted: bearer"`},
		{"", "GET", pods, "", nil, `ResponseStarted list  pods 401 Metadata "Authentication failed, no credentials provided"`},
		{"admin", "POST", cms, cm("boom"), nil, `Panic create admin configmaps 500 RequestResponse asked "APIServer panic'd: boom"`},
	} {
		before, _ := os.ReadFile(log)
		w := c.serve(tt.user, tt.method, tt.path, tt.body, tt.headers...)
		after, _ := os.ReadFile(log)
		got := describeEvents(t, after[len(before):], w)
		if got != tt.want {
			t.Errorf("%s %s by %q:\n got %s\nwant %s", tt.method, tt.path, tt.user, got, tt.want)
		}
	}
}

func describeEvents(t *testing.T, data []byte, w *httptest.ResponseRecorder) string {
	t.Helper()
	var all []string
	for line := range bytes.Lines(data) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if string(e.AuditID) != w.Header().Get("Audit-Id") || e.RequestURI == "" {
			t.Errorf("event %s is not that of the answer %s", line, w.Header().Get("Audit-Id"))
		}
		if e.Stage == auditv1.StageRequestReceived {
			continue
		}
		who := e.User.Username
		if e.ImpersonatedUser != nil {
			who += " as " + e.ImpersonatedUser.Username
		}
		if m := e.AuthenticationMetadata; m != nil {
			who += " by " + m.ImpersonationConstraint
		}
		s := fmt.Sprintf("%s %s %s %s %d %s", e.Stage, e.Verb, who, e.ObjectRef.Resource, e.ResponseStatus.Code, e.Level)
		if e.RequestObject != nil {
			s += " asked"
		}
		if e.ResponseObject != nil {
			s += " answered"
		}
		if m := e.ResponseStatus.Message; m != "" {
			s += fmt.Sprintf(" %q", m)
		}
		if int(e.ResponseStatus.Code) != w.Code {
			t.Errorf("event says %d, answer %d", e.ResponseStatus.Code, w.Code)
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}
