package audit

import (
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// FuzzPolicy: a policy file is refused, or says of any request what to record of
// it.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(rules), "/api/v1/namespaces/a/secrets/b", "secrets", "status")
	f.Add([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  nonResourceURLs: [\"/a*\", \"*\"]\n  verbs: [get]\n"), "/healthz", "", "")
	f.Add([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: None, resources: [{group: apps, resources: [\"*/scale\", \"pods*\"], resourceNames: [x]}]}\n"), "/", "pods", "scale")
	f.Add([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"), "", "", "")
	f.Fuzz(func(t *testing.T, file []byte, path, resource, sub string) {
		p, err := policy.LoadPolicyFromBytes(file)
		if err != nil {
			return
		}
		trail := newTrail(p, discard{io.Discard}, Config{Format: "json", Mode: BlockingStrict})
		a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "jane", Groups: []string{"g"}}, Verb: "get", Path: path,
			Resource: resource, Subresource: sub, Name: "x", Namespace: "a", ResourceRequest: resource != ""}
		if _, _, err := trail.Begin(httptest.NewRequest("GET", "/", nil), "id", time.Unix(1, 0), a, false); err != nil {
			t.Errorf("begin: %v", err)
		}
		if err := trail.Refused(httptest.NewRequest("GET", "/", nil), "id", time.Unix(1, 0), a, 403); err != nil {
			t.Errorf("refused: %v", err)
		}
	})
}
