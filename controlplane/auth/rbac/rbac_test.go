package rbac

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}
}

func rule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: strings.Fields(resources), ResourceNames: names}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: typeMeta("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(ns, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: typeMeta("Role"), ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: rules}
}

func bindCluster(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{TypeMeta: typeMeta("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects}
}

func bind(ns, name, kind, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{TypeMeta: typeMeta("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		RoleRef: rbacv1.RoleRef{Kind: kind, Name: role}, Subjects: subjects}
}

func group(n string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: n} }
func person(n string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "User", Name: n}
}
func account(ns, n string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: ns, Name: n}
}

func running(t *testing.T, objects ...schema.Object) (*Authorizer, *client.Fake) {
	t.Helper()
	f := client.NewFake(objects...)
	a := New(f.Cache())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-a.ready
	return a, f
}

// request is "user verb group/resource/sub ns/name" or "user verb /path".
func request(t *testing.T, s string) authorizer.AttributesRecord {
	t.Helper()
	f := strings.Fields(s)
	who := strings.Split(f[0], ",")
	r := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who[0], Groups: who[1:]}, Verb: f[1]}
	if strings.HasPrefix(f[2], "/") {
		r.Path = f[2]
		return r
	}
	r.ResourceRequest = true
	what := strings.Split(f[2], "/")
	r.APIGroup, r.Resource = what[0], what[1]
	if r.APIGroup == "core" {
		r.APIGroup = ""
	}
	if len(what) > 2 {
		r.Subresource = what[2]
	}
	if len(f) > 3 {
		r.Namespace, r.Name, _ = strings.Cut(f[3], "/")
	}
	return r
}

func TestAuthorize(t *testing.T) {
	paths := clusterRole("paths")
	paths.Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/livez/*"}}}
	a, _ := running(t,
		clusterRole("reader", rule("get list", "", "pods pods/log")),
		clusterRole("all", rule("*", "*", "*")), clusterRole("scaler", rule("update", "*", "*/scale")), paths,
		role("shop", "writer", rule("create update", "apps", "deployments"), rule("get", "", "secrets", "one", "two")),
		bindCluster("readers", "reader", group("readers"), group("others")), bindCluster("admins", "all", person("root")),
		bindCluster("scalers", "scaler", person("scaler")), bindCluster("probes", "paths", group("probes")), bindCluster("broken", "missing", person("broken")),
		bind("shop", "writers", "Role", "writer", person("jane"), account("", "robot")),
		bind("shop", "shop-readers", "ClusterRole", "reader", account("ci", "robot")),
	)
	for _, tt := range []struct {
		request string
		allowed bool
		reason  string
	}{
		{"a,readers get core/pods shop/p", true, `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "readers"`},
		{"a,others list core/pods", true, `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "others"`},
		{"a,readers get core/pods/log shop/p", true, ""},
		{"a,readers get core/pods/exec shop/p", false, ""},
		{"a,readers delete core/pods shop/p", false, ""},
		{"a,readers get apps/pods shop/p", false, ""},
		{"readers get core/pods shop/p", false, ""}, // a user is no group
		{"root deletecollection example.com/things shop/x", true, `RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "all" to User "root"`},
		{"root get core/pods/exec shop/x", true, ""},
		{"root get /metrics", false, ""}, // * on resources is none on paths
		{"scaler update apps/deployments/scale shop/web", true, ""},
		{"scaler update apps/deployments shop/web", false, ""},
		{"p,probes get /healthz", true, ""},
		{"p,probes get /healthz/etcd", false, ""},
		{"p,probes get /livez/etcd", true, ""},
		{"p,probes post /healthz", false, ""},
		{"jane create apps/deployments shop/", true, `RBAC: allowed by RoleBinding "writers/shop" of Role "writer" to User "jane"`},
		{"jane create apps/deployments other/", false, ""},
		{"jane create apps/deployments", false, ""},
		{"jane get core/secrets shop/two", true, ""},
		{"jane get core/secrets shop/three", false, ""},
		{"jane list core/secrets shop/", false, ""},
		{"system:serviceaccount:shop:robot update apps/deployments shop/web", true, `RBAC: allowed by RoleBinding "writers/shop" of Role "writer" to ServiceAccount "robot/shop"`},
		{"system:serviceaccount:ci:robot get core/pods shop/p", true, `to ServiceAccount "robot/ci"`},
		{"system:serviceaccount:ci:robot get core/pods ci/p", false, ""},
		{"broken get core/pods shop/p", false, `RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found`},
	} {
		t.Run(tt.request, func(t *testing.T) {
			d, reason, err := a.Authorize(t.Context(), request(t, tt.request))
			if err != nil {
				t.Fatal(err)
			}
			if (d == authorizer.DecisionAllow) != tt.allowed || d == authorizer.DecisionDeny || !strings.Contains(reason, tt.reason) || !tt.allowed && tt.reason == "" && reason != "" {
				t.Errorf("decision %v, reason %q; want %v, %q", d, reason, tt.allowed, tt.reason)
			}
		})
	}
}

func TestAggregation(t *testing.T) {
	to := func(r *rbacv1.ClusterRole, name string) *rbacv1.ClusterRole {
		r.Labels = map[string]string{"to-" + name: "true"}
		return r
	}
	sum := func(name string) *rbacv1.ClusterRole {
		r := clusterRole(name, rule("delete", "", "stale"))
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to-" + name: "true"}}}}
		return r
	}
	a, f := running(t,
		to(sum("edit"), "admin"), to(sum("admin"), "edit"), // one within the other
		to(clusterRole("part", rule("get", "", "pods")), "edit"),
		bindCluster("admins", "admin", person("jane")),
	)
	allowed := func(s string) bool {
		d, _, err := a.Authorize(t.Context(), request(t, s))
		if err != nil {
			t.Fatal(err)
		}
		return d == authorizer.DecisionAllow
	}
	if !allowed("jane get core/pods shop/p") {
		t.Error("the parts of a part are not granted")
	}
	if allowed("jane delete core/stale shop/p") {
		t.Error("an aggregated role grants what is written into it")
	}
	f.Put(to(clusterRole("more", rule("watch", "example.com", "things")), "admin"))
	if !allowed("jane watch example.com/things shop/p") {
		t.Error("a part that came later is not granted")
	}
	if err := f.Delete(t.Context(), schema.ResourceFor[*rbacv1.ClusterRole](), schema.Key{Name: "part"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if allowed("jane get core/pods shop/p") {
		t.Error("a part that is gone is still granted")
	}
}

// TestFollowsChanges: a right ends with its binding, subject, or role.
func TestFollowsChanges(t *testing.T) {
	a, f := running(t, clusterRole("reader", rule("get", "", "pods")), bindCluster("b", "reader", person("jane"), person("joe")))
	want := func(who string, want bool, when string) {
		t.Helper()
		d, _, _ := a.Authorize(t.Context(), request(t, who+" get core/pods shop/p"))
		if (d == authorizer.DecisionAllow) != want {
			t.Errorf("%s %s: allowed %v", who, when, !want)
		}
	}
	want("jane", true, "at first")
	f.Put(bindCluster("b", "reader", person("joe")))
	want("jane", false, "after she was taken out")
	want("joe", true, "after jane was taken out")
	f.Put(clusterRole("reader", rule("get", "", "services")))
	want("joe", false, "after the role was changed")
	f.Put(clusterRole("reader", rule("get", "", "pods")))
	want("joe", true, "after the role was changed back")
	if err := f.Delete(t.Context(), schema.ResourceFor[*rbacv1.ClusterRoleBinding](), schema.Key{Name: "b"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("joe", false, "after the binding is gone")
	if len(a.index.bySubject) != 0 || len(a.index.bindings) != 0 {
		t.Errorf("left in the index: %v", a.index.bySubject)
	}
}

// TestWaitsForTheFirstReading: early requests are not refused, and not let in.
func TestWaitsForTheFirstReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(client.NewFake().Cache())
		began := time.Now()
		d, _, err := a.Authorize(t.Context(), request(t, "jane get core/pods shop/p"))
		if err == nil || d == authorizer.DecisionAllow || time.Since(began) != patience {
			t.Errorf("decision %v, err %v after %s", d, err, time.Since(began))
		}
	})
}

func TestRulesFor(t *testing.T) {
	paths := clusterRole("paths")
	paths.Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}}
	a, _ := running(t, clusterRole("reader", rule("get", "", "pods")), paths, role("shop", "writer", rule("create", "apps", "deployments")),
		bindCluster("b", "reader", person("jane")), bindCluster("p", "paths", person("jane")), bind("shop", "w", "Role", "writer", person("jane")))
	for ns, want := range map[string]int{"shop": 2, "other": 1, "": 1} {
		res, non, incomplete, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "jane"}, ns)
		if len(res) != want || len(non) != 1 || incomplete || err != nil {
			t.Errorf("in %q: %d and %d rules, %v, %v", ns, len(res), len(non), incomplete, err)
		}
	}
}

func BenchmarkAuthorize(b *testing.B) {
	f := client.NewFake(clusterRole("reader", rule("get", "", "pods")))
	for i := range 5000 {
		ns := fmt.Sprint("ns", i%200)
		f.Put(bind(ns, fmt.Sprint("b", i), "ClusterRole", "reader", person(fmt.Sprint("u", i))))
	}
	a := New(f.Cache())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	<-a.ready
	r := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u7", Groups: []string{"a", "b", "system:authenticated"}}, Verb: "get", Resource: "pods", Namespace: "ns7", ResourceRequest: true}
	b.ReportAllocs()
	for b.Loop() {
		if d, _, _ := a.Authorize(ctx, r); d != authorizer.DecisionAllow {
			b.Fatal("refused")
		}
	}
	cancel()
	<-done
}
