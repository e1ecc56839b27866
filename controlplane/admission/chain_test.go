package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestCheckNames(t *testing.T) {
	if err := CheckNames([]string{"AlwaysPullImages"}, []string{"PodSecurity"}); err != nil {
		t.Error(err)
	}
	for want, lists := range map[string][2][]string{
		`"PodPreset" is unknown; known are AlwaysAdmit, `: {{"PodPreset"}, nil},
		`is not offered: `: {{"ImagePolicyWebhook"}, nil},
		`overlapped`:       {{"PodSecurity"}, {"PodSecurity"}},
	} {
		if err := CheckNames(lists[0], lists[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestQuotaInTransaction: the pods of one commit see each other's usage, and
// what is refused charges nothing.
func TestQuotaInTransaction(t *testing.T) {
	c := open(t, nil)
	c.account("shop", "default")
	two := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}
	c.create(admin, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: two}})
	err := change(c, controller, shop("q"), "status", func(q *corev1.ResourceQuota) {
		q.Status.Hard, q.Status.Used = two, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	})
	if err != nil {
		t.Fatal(err)
	}
	used := func() string {
		q, err := client.Get[*corev1.ResourceQuota](admin, c, shop("q"))
		if err != nil {
			t.Fatal(err)
		}
		n := q.Status.Used[corev1.ResourcePods]
		return n.String()
	}
	ops := func(names ...string) []client.Op {
		var out []client.Op
		for _, n := range names {
			p := pod(n)
			out = append(out, client.Op{Verb: client.VerbCreate, Resource: pods, Key: schema.KeyOf(p), Object: p})
		}
		return out
	}
	_, err = c.Transact(admin, ops("a", "b", "c"), false)
	var failed *client.TransactionError
	if !errors.As(err, &failed) || len(failed.Errs) != 1 || !strings.Contains(failed.Errs[2].Error(), "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2") {
		t.Fatalf("error %v", err)
	}
	if got := used(); got != "0" {
		t.Errorf("used %s after a refusal", got)
	}
	if _, err := c.Transact(admin, ops("a", "b"), false); err != nil {
		t.Fatal(err)
	}
	if got := used(); got != "2" {
		t.Errorf("used %s", got)
	}
}

type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

// TestBreakGlass: the credential passes the guard and is told where to edit;
// its name alone does not.
func TestBreakGlass(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(2))
	rec := &recorder{}
	glass := warning.WithWarningRecorder(as(identity.Admin, user.SystemPrivilegedGroup), rec)
	label := func(ctx context.Context) error {
		_, err := c.Patch(ctx, deployments, shop("web"), "application/merge-patch+json", []byte(`{"metadata":{"labels":{"tier":"back"}}}`), client.WriteOptions{FieldManager: "kubectl"})
		return err
	}
	wantRefused(t, label(as(identity.Admin)), "declared in Git")
	if err := label(glass); err != nil {
		t.Fatal(err)
	}
	if len(rec.texts) == 0 || !strings.Contains(rec.texts[0], "deployments.apps shop/web: metadata.labels.tier declared in Git: the reconciler puts it back to what apps/web.yaml:10") {
		t.Errorf("warnings %q", rec.texts)
	}
	if err := c.Delete(glass, deployments, shop("web"), client.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
