package auth

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// FuzzFiles: any file is a configuration or is refused, with its name.
func FuzzFiles(f *testing.F) {
	f.Add(uint8(0), []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n"))
	f.Add(uint8(0), []byte("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthorizationConfiguration\nauthorizers: [{type: Webhook, name: a.b, webhook: {timeout: 3s, failurePolicy: Deny, "+
		"subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, authorizedTTL: 1s, unauthorizedTTL: 1s, connectionInfo: {type: InClusterConfig}, matchConditions: [{expression: \"request.user == 'x'\"}]}}]\n"))
	f.Add(uint8(1), []byte("token,user,uid,\"a,b\"\n"))
	f.Add(uint8(1), []byte("\"\n,,\n"))
	log := slog.New(slog.DiscardHandler)
	file := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if kind%2 == 1 {
			if s, err := OpenTokenFile(file, log); err == nil && s == nil {
				t.Error("neither tokens nor an error")
			}
			return
		}
		if chain, err := (Authorization{File: file}).Open(log); err == nil && len(chain) == 0 {
			t.Error("neither authorizers nor an error: everything would be refused")
		}
	})
}
