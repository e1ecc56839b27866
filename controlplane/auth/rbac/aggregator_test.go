package rbac

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// aggRole is a role with a rule for each verb, labelled part=<partOf>, and the
// sum of the roles of <sum>.
func aggRole(name, verbs, partOf, sum string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, v := range strings.Fields(verbs) {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{v}, APIGroups: []string{""}, Resources: []string{"pods"}})
	}
	if partOf != "" {
		r.Labels = map[string]string{"part": partOf}
	}
	if sum != "" {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"part": sum}}}}
	}
	return r
}

func verbs(r *rbacv1.ClusterRole) string {
	var out []string
	for _, rule := range r.Rules {
		out = append(out, rule.Verbs...)
	}
	return strings.Join(out, " ")
}

func TestAggregated(t *testing.T) {
	all := map[string]*rbacv1.ClusterRole{}
	for _, r := range []*rbacv1.ClusterRole{
		aggRole("b", "get list", "view", ""), aggRole("a", "watch get", "view", ""), aggRole("c", "delete", "edit", ""),
		aggRole("sum", "stale", "view", "view"), aggRole("plain", "get", "", ""),
	} {
		all[r.Name] = r
	}
	next, changed := Aggregated(all["sum"], all)
	if !changed || verbs(next) != "watch get list" { // by name, without itself, once each
		t.Errorf("%v %q", changed, verbs(next))
	}
	if verbs(all["sum"]) != "stale" {
		t.Error("the given role was changed")
	}
	all["sum"] = next
	if _, changed := Aggregated(next, all); changed {
		t.Error("changed twice")
	}
	if _, changed := Aggregated(all["plain"], all); changed {
		t.Error("a role without aggregation was changed")
	}
}

func TestAggregator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(aggRole("admin", "", "", "admin"), aggRole("edit", "", "admin", "edit"), aggRole("edit-part", "create", "edit", ""), aggRole("admin-part", "bind", "admin", ""))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- (&Aggregator{Client: f, Cache: f.Cache(), Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		read := func(name string) string {
			t.Helper()
			synctest.Wait()
			r, err := client.Get[*rbacv1.ClusterRole](t.Context(), f, schema.Key{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return verbs(r)
		}
		if got := read("admin"); got != "bind create" {
			t.Errorf("admin has %q", got)
		}
		f.Put(aggRole("edit-more", "patch", "edit", ""))
		if got := read("admin"); got != "bind patch create" && got != "bind create patch" {
			t.Errorf("admin has %q", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
