package reconciler

import (
	"strings"
	"testing"

	"k8s.io/pod-security-admission/api"

	"github.com/writ-os/writ/schema/podstandard"
)

// TestReviewSecurity: without a cluster nobody knows what a namespace enforces
// that the tree does not declare, so that is a warning there.
func TestReviewSecurity(t *testing.T) {
	pod := func(ns string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: " + ns + "}\nspec:\n  selector: {matchLabels: {a: d}}\n  template:\n" +
			"    metadata: {labels: {a: d}}\n    spec: {hostPID: true, containers: [{name: c, image: nginx}]}\n"
	}
	ns := func(labels string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {" + labels + "}}\n"
	}
	for _, tt := range []struct {
		name           string
		tree           memTree
		wrong, warning string
	}{
		{"not declared", memTree{"a.yaml": pod("shop")}, "", `the namespace shop enforces Pod Security "baseline", unless it has labels that say otherwise, so none`},
		{"default", memTree{"a.yaml": pod("default")}, "", "unless it has labels that say otherwise"},
		{"declared", memTree{"a.yaml": pod("shop"), "n.yaml": ns("")}, `the namespace shop enforces Pod Security "baseline", as one does that says nothing`, ""},
		{"opted out", memTree{"a.yaml": pod("shop"), "n.yaml": ns("pod-security.kubernetes.io/enforce: privileged")}, "", ""},
		{"warned of", memTree{"a.yaml": pod("shop"), "n.yaml": ns("pod-security.kubernetes.io/enforce: privileged, pod-security.kubernetes.io/warn: restricted")}, "",
			`spec.template.spec.hostPID: the namespace shop warns of what Pod Security "restricted" refuses: host namespaces (hostPID=true)`},
		{"a level that there is not", memTree{"a.yaml": pod("shop"), "n.yaml": ns("pod-security.kubernetes.io/enforce: basline")}, `the namespace shop enforces Pod Security "restricted"`, ""},
		{"the system", memTree{"a.yaml": pod("kube-system")}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Review(t.Context(), tt.tree)
			if err != nil {
				t.Fatal(err)
			}
			wrong, warnings := r.Findings, r.Warnings
			var said, warned strings.Builder
			for _, f := range wrong {
				said.WriteString(Text(f) + "\n")
			}
			for _, f := range warnings {
				warned.WriteString(Text(f) + "\n")
			}
			if !strings.Contains(said.String(), tt.wrong) || tt.wrong == "" && len(wrong) > 0 {
				t.Errorf("findings are %s", said.String())
			}
			if !strings.Contains(warned.String(), tt.warning) || tt.warning == "" && len(warnings) > 0 {
				t.Errorf("warnings are %s", warned.String())
			}
		})
	}
}

// TestSecurityOfTheServer: a commit is judged by what the server enforces.
func TestSecurityOfTheServer(t *testing.T) {
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, tt := range []struct {
		cfg   podstandard.Config
		wrong int
	}{
		{podstandard.Baseline(), 0},
		{podstandard.Config{}, 0},
		{podstandard.Config{Defaults: api.Policy{Enforce: restricted}}, 4},
		{podstandard.Config{Defaults: api.Policy{Enforce: restricted}, Namespaces: []string{"shop"}}, 0},
	} {
		j, err := podstandard.New(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		e := newEvaluator()
		e.security = j
		ev, err := e.evaluate(t.Context(), memTree{"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: ReplicationController\n" +
			"metadata: {name: d, namespace: shop}\nspec:\n  template:\n    metadata: {labels: {a: d}}\n    spec: {containers: [{name: c, image: nginx}]}\n"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		refused, _, err := ev.security(t.Context(), nil)
		if err != nil || len(refused) != tt.wrong {
			t.Errorf("%+v: findings are %v, %v", tt.cfg, refused, err)
		}
	}
}
