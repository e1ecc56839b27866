package servicecidr

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func cidr(name string, ranges ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}
}

func address(ip string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{networkingv1.LabelManagedBy: managedBy}}}
}

func service(ips ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips}}
}

func TestOrphans(t *testing.T) {
	small := cidr("small", "10.0.0.0/30")
	for _, tt := range []struct {
		name string
		all  []*networkingv1.ServiceCIDR
		used []string
		want bool
	}{
		{"nobody", nil, nil, false},
		{"one inside", nil, []string{"10.0.0.1"}, true},
		{"one outside", nil, []string{"10.0.0.7"}, false},
		{"first and last are never given", nil, []string{"10.0.0.0", "10.0.0.3"}, false},
		{"within a greater", []*networkingv1.ServiceCIDR{cidr("great", "10.0.0.0/24")}, []string{"10.0.0.1"}, false},
		{"the same again", []*networkingv1.ServiceCIDR{cidr("twin", "10.0.0.0/30")}, []string{"10.0.0.1"}, false},
		{"half is within another", []*networkingv1.ServiceCIDR{cidr("half", "10.0.0.0/31")}, []string{"10.0.0.1"}, true},
	} {
		var used []netip.Addr
		for _, a := range tt.used {
			used = append(used, netip.MustParseAddr(a))
		}
		if got := orphans(small, append(tt.all, small), used); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	both := cidr("both", "10.0.0.0/24", "fd00::/64")
	if !orphans(both, []*networkingv1.ServiceCIDR{both, cidr("four", "10.0.0.0/16")}, []netip.Addr{netip.MustParseAddr("fd00::5")}) {
		t.Error("the second family was not looked at")
	}
}

func TestAddresses(t *testing.T) {
	external := service("10.0.0.1")
	external.Spec.Type = corev1.ServiceTypeExternalName
	unmanaged := address("10.0.0.1")
	unmanaged.Labels = nil
	for _, tt := range []struct {
		o    schema.Object
		want int
	}{
		{service("None"), 0}, {service("10.0.0.1", "fd00::1"), 2}, {external, 0}, {address("fd00::1"), 1}, {unmanaged, 0}, {nil, 0},
		{&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}, 1},
	} {
		if got := addresses(tt.o); len(got) != tt.want {
			t.Errorf("%+v: %v", tt.o, got)
		}
	}
}

func read(t *testing.T, f *client.Fake, name string) (s *networkingv1.ServiceCIDR, ready metav1.Condition) {
	t.Helper()
	s, err := client.Get[*networkingv1.ServiceCIDR](t.Context(), f, schema.Key{Name: name})
	if apierrors.IsNotFound(err) {
		return nil, ready
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Status.Conditions) != 1 {
		t.Fatalf("%s: conditions %v", name, s.Status.Conditions)
	}
	return s, s.Status.Conditions[0]
}

func TestReady(t *testing.T) {
	controllertest.Bubble(t, New, func(_ context.Context, f *client.Fake) {
		s, c := read(t, f, "a")
		if !slices.Equal(s.Finalizers, []string{"x/y", Finalizer}) || c.Type != "Ready" || c.Status != metav1.ConditionTrue || c.Reason != "" || c.Message != "Kubernetes Service CIDR is ready" {
			t.Errorf("%v, %+v", s.Finalizers, c)
		}
		if len(s.ManagedFields) == 0 || s.ManagedFields[0].Manager != manager || s.ManagedFields[0].Subresource != "status" {
			t.Errorf("managed by %v", s.ManagedFields)
		}
	}, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"x/y"}}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24"}}})
}

func remove(t *testing.T, ctx context.Context, f *client.Fake, o schema.Object) {
	t.Helper()
	if err := f.Delete(ctx, f.Catalog.Load().ResourceOf(o), schema.KeyOf(o), client.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// What nobody needs goes after the grace that allocators are given.
func TestUnusedGoesAfterAWhile(t *testing.T) {
	controllertest.Bubble(t, New, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, cidr("a"))
		time.Sleep(grace - 2*time.Second) // times of the API are whole seconds
		if s, c := read(t, f, "a"); s == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("too early: %+v", c)
		}
		time.Sleep(3 * time.Second)
		if s, _ := read(t, f, "a"); s != nil {
			t.Errorf("still there: %v", s.Finalizers)
		}
	}, cidr("a", "10.0.0.0/24"))
}

// What is in use stays and says so, until its addresses are gone or another
// ServiceCIDR holds them.
func TestInUseStays(t *testing.T) {
	for _, tt := range []struct {
		name string
		user schema.Object
		free func(ctx context.Context, f *client.Fake)
	}{
		{"IPAddress goes", address("10.0.0.5"), func(ctx context.Context, f *client.Fake) { remove(t, ctx, f, address("10.0.0.5")) }},
		{"Service goes", service("10.0.0.5"), func(ctx context.Context, f *client.Fake) { remove(t, ctx, f, service("10.0.0.5")) }},
		{"Service gives its address back", service("10.0.0.5"), func(ctx context.Context, f *client.Fake) {
			s := service("10.0.0.5")
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}
			if _, err := client.Update(ctx, f, s, client.WriteOptions{}); err != nil {
				t.Error(err)
			}
		}},
		{"another takes over", address("10.0.0.5"), func(_ context.Context, f *client.Fake) { f.Put(cidr("great", "10.0.0.0/16")) }},
	} {
		controllertest.Bubble(t, New, func(ctx context.Context, f *client.Fake) {
			remove(t, ctx, f, cidr("a"))
			time.Sleep(time.Hour)
			s, c := read(t, f, "a")
			if s == nil || c.Status != metav1.ConditionFalse || c.Reason != "Terminating" {
				t.Errorf("%s: while in use: %+v", tt.name, c)
			}
			tt.free(ctx, f)
			time.Sleep(grace)
			if s, _ := read(t, f, "a"); s != nil {
				t.Errorf("%s: still there", tt.name)
			}
		}, cidr("a", "10.0.0.0/24"), tt.user)
	}
}

func TestRefusedWriteIsAnError(t *testing.T) {
	f := client.NewFake(cidr("a", "10.0.0.0/24"))
	f.Reject(func(_ client.Verb, _ *schema.Resource, sub string, _ schema.Object) error {
		if sub == "status" {
			return errors.New("full")
		}
		return nil
	})
	if _, err := New(controllertest.Tools(f)).Reconcile(t.Context(), schema.Key{Name: "a"}); err == nil {
		t.Error("no error")
	}
}
