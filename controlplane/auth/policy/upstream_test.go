package policy

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/writ-os/writ/schema"
)

// TestUpstream compares the default roles and bindings with those that an
// API server of v1.36 with its default feature gates makes. Ours may have more
// (writ:...), but none of upstream's may differ.
func TestUpstream(t *testing.T) {
	data, err := os.ReadFile("testdata/upstream-1.36.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, have := blocks(string(data)), map[string]string{}
	for _, o := range Objects() {
		id, text, _ := strings.Cut(compact(o), "\n")
		if !strings.Contains(id, " writ:") {
			have[id] = text
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		got, ok := have[id]
		if !ok {
			t.Errorf("%s is missing", id)
			continue
		}
		if got != want[id] {
			t.Errorf("%s differs\nhave:\n%s\nwant:\n%s", id, got, want[id])
		}
	}
	for id := range have {
		if _, ok := want[id]; !ok {
			t.Errorf("upstream has no %s", id)
		}
	}
}

func blocks(text string) map[string]string {
	out := map[string]string{}
	var id string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") {
			id = strings.TrimSuffix(line, "\n")
			out[id] = ""
			continue
		}
		out[id] += line
	}
	return out
}

// compact writes an object in the form of the file: a line that names it, and
// one for each rule or subject.
func compact(o schema.Object) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", o.GetObjectKind().GroupVersionKind().Kind)
	if ns := o.GetNamespace(); ns != "" {
		b.WriteString(ns + "/")
	}
	b.WriteString(o.GetName())
	for _, k := range slices.Sorted(maps.Keys(o.GetLabels())) {
		if k != "kubernetes.io/bootstrapping" {
			fmt.Fprintf(&b, " %s=%s", k, o.GetLabels()[k])
		}
	}
	b.WriteString("\n")
	switch o := o.(type) {
	case *rbacv1.ClusterRole:
		if o.AggregationRule != nil {
			for _, s := range o.AggregationRule.ClusterRoleSelectors {
				for k, v := range s.MatchLabels {
					fmt.Fprintf(&b, "\tselects %s=%s\n", k, v)
				}
			}
		}
		compactRules(&b, o.Rules)
	case *rbacv1.Role:
		compactRules(&b, o.Rules)
	case *rbacv1.ClusterRoleBinding:
		compactBinding(&b, o.RoleRef, o.Subjects)
	case *rbacv1.RoleBinding:
		compactBinding(&b, o.RoleRef, o.Subjects)
	}
	return b.String()
}

func compactRules(b *strings.Builder, rules []rbacv1.PolicyRule) {
	words := func(list []string) string {
		quoted := slices.Clone(list)
		for i, s := range quoted {
			if s == "" {
				quoted[i] = `""`
			}
		}
		return strings.Join(quoted, " ")
	}
	for _, r := range rules {
		parts := []string{words(r.Verbs), words(r.APIGroups), words(r.Resources)}
		if len(r.NonResourceURLs) > 0 {
			parts = []string{words(r.Verbs), words(r.NonResourceURLs)}
		}
		if len(r.ResourceNames) > 0 {
			parts = append(parts, words(r.ResourceNames))
		}
		b.WriteString("\t" + strings.Join(parts, " | ") + "\n")
	}
}

func compactBinding(b *strings.Builder, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	fmt.Fprintf(b, "\tgrants %s %s\n", ref.Kind, ref.Name)
	for _, s := range subjects {
		ns := s.Namespace
		if ns != "" {
			ns += "/"
		}
		fmt.Fprintf(b, "\tto %s %s%s\n", s.Kind, ns, s.Name)
	}
}
