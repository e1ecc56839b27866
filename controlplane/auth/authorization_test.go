package auth

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/webhook"
	"github.com/writ-os/writ/controlplane/client"
)

func TestAuthorization(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := write("policy.jsonl", `{"user":"old"}`)
	hook := write("kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
	hookStep := "- {type: Webhook, name: w, webhook: {authorizedTTL: 1s, unauthorizedTTL: 1s, timeout: 1s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: KubeConfigFile, kubeConfigFile: " + hook + "}}}\n"
	for _, tt := range []struct {
		cfg  Authorization
		want string // the modes, or an error after "!"
	}{
		{Authorization{}, "Node RBAC"},
		{Authorization{Modes: []string{"RBAC", "ABAC", "Webhook", "AlwaysDeny"}, PolicyFile: policy, Webhook: webhook.AuthorizerConfig{File: hook}}, "RBAC ABAC Webhook AlwaysDeny"},
		{Authorization{Modes: []string{"RBAC", "RBAC"}}, `!authorization-mode ["RBAC" "RBAC"] has mode specified more than once`},
		{Authorization{Modes: []string{"Magic"}}, `!authorization-mode "Magic" is not a valid mode`},
		{Authorization{Modes: []string{"ABAC"}}, "!authorization-mode ABAC's authorization policy file not passed"},
		{Authorization{PolicyFile: policy}, "!cannot specify --authorization-policy-file without mode ABAC"},
		{Authorization{Modes: []string{"Webhook"}}, "!authorization-mode Webhook's authorization config file not passed"},
		{Authorization{Webhook: webhook.AuthorizerConfig{File: hook}}, "!cannot specify --authorization-webhook-config-file without mode Webhook"},
		{Authorization{Modes: []string{"ABAC"}, PolicyFile: policy + "x"}, "!no such file"},
		{Authorization{File: write("good.yaml", head+hookStep+"- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n")}, "Webhook Node RBAC"},
		{Authorization{File: write("twice.yaml", head+"- {type: RBAC, name: rbac}\n- {type: RBAC, name: rbac}\n")}, "!Duplicate value"},
		{Authorization{File: write("name.yaml", head+"- {type: RBAC, name: roles}\n")}, "!expected name rbac for authorizer RBAC instead of roles"},
		{Authorization{File: write("none.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n")}, "!authorizers: Required value"},
		{Authorization{File: write("junk.yaml", "x: [")}, "!junk.yaml"},
		{Authorization{File: policy, Modes: []string{"RBAC"}}, "!authorization-config can not be specified"},
	} {
		chain, err := tt.cfg.Open(slog.New(slog.DiscardHandler))
		if want, bad := strings.CutPrefix(tt.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", tt.cfg, err, want)
			}
			continue
		}
		var have []string
		for _, m := range chain {
			have = append(have, m.Mode)
		}
		if err != nil || strings.Join(have, " ") != tt.want {
			t.Errorf("%v, %v, want %s", have, err, tt.want)
		}
	}
}

func TestChain(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane"}
	ask := func(chain ...Member) string {
		a := NewAuthorizer(AuthorizerConfig{Cache: client.NewFake().Cache(), Chain: chain})
		d, reason, err := a.Authorize(t.Context(), authorizer.AttributesRecord{User: jane, Verb: "get", Path: "/x"})
		return fmt.Sprintf("%v %q %v", d, reason, err)
	}
	deny := Member{Mode: ModeWebhook, Decider: denier{}}
	for _, tt := range []struct {
		chain []Member
		want  string
	}{
		{[]Member{{Mode: ModeAlwaysAllow}}, `Allow "" <nil>`},
		{[]Member{{Mode: ModeAlwaysDeny}}, `NoOpinion "Everything is forbidden." <nil>`},
		{[]Member{{Mode: ModeAlwaysDeny}, {Mode: ModeAlwaysAllow}}, `Allow "" <nil>`},
		{[]Member{deny, {Mode: ModeAlwaysAllow}}, `Deny "never" <nil>`},
		{[]Member{{Mode: "Magic"}, {Mode: ModeAlwaysDeny}}, `NoOpinion "Everything is forbidden.\nEverything is forbidden." <nil>`},
	} {
		if got := ask(tt.chain...); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.chain, got, tt.want)
		}
	}
	jane.Groups = []string{user.SystemPrivilegedGroup}
	if got := ask(deny); got != `Allow "" <nil>` {
		t.Errorf("system:masters: %s", got)
	}
	a := NewAuthorizer(AuthorizerConfig{Cache: client.NewFake().Cache(), Chain: []Member{{Mode: ModeNode}, {Mode: ModeAlwaysAllow}}})
	if r, n, incomplete, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "system:node:a", Groups: []string{user.NodesGroup}}, "x"); len(r) != 1 || len(n) != 1 || !incomplete || err == nil {
		t.Errorf("%v %v %v %v", r, n, incomplete, err)
	}
}

// denier refuses everything for good.
type denier struct{ authorizer.RuleResolver }

func (denier) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "never", nil
}
