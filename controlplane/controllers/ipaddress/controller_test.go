package ipaddress

import (
	"context"
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

func service(name string, ips ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips}}
}

func address(ip, of string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, CreationTimestamp: metav1.Now(), Labels: map[string]string{networkingv1.LabelManagedBy: managedBy, networkingv1.LabelIPAddressFamily: "IPv4"}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: of}},
	}
}

// holder is the Service that an address is of; "" when it has no IPAddress.
func holder(t *testing.T, f *client.Fake, ip string) string {
	t.Helper()
	a, err := client.Get[*networkingv1.IPAddress](t.Context(), f, schema.Key{Name: ip})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	if a.Labels[networkingv1.LabelManagedBy] != managedBy || a.Labels[networkingv1.LabelIPAddressFamily] == "" {
		t.Errorf("%s: labels %v", ip, a.Labels)
	}
	return a.Spec.ParentRef.Name
}

func remove(t *testing.T, ctx context.Context, f *client.Fake, o schema.Object) {
	t.Helper()
	if err := f.Delete(ctx, f.Catalog.Load().ResourceOf(o), schema.KeyOf(o), client.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// What is deleted by hand is back at once, with nobody's clock moving.
func TestDeletedByHandComesBack(t *testing.T) {
	controllertest.Bubble(t, New, func(ctx context.Context, f *client.Fake) {
		before := time.Now()
		remove(t, ctx, f, address("10.0.0.5", "a"))
		if got := holder(t, f, "10.0.0.5"); got != "a" || time.Since(before) > 0 {
			t.Errorf("address of %q after %v", got, time.Since(before))
		}
	}, service("a", "10.0.0.5"), address("10.0.0.5", "a"))
}

func TestMissingIsMade(t *testing.T) {
	external := service("e", "10.0.0.7")
	external.Spec.Type = corev1.ServiceTypeExternalName
	controllertest.Bubble(t, New, func(_ context.Context, f *client.Fake) {
		for ip, want := range map[string]string{"10.0.0.5": "a", "fd00::5": "a", "10.0.0.7": ""} {
			if got := holder(t, f, ip); got != want {
				t.Errorf("%s: of %q, want %q", ip, got, want)
			}
		}
	}, service("a", "10.0.0.5", "fd00::5"), service("none", "None"), external)
}

func TestWrongOnesAreReplaced(t *testing.T) {
	bare := address("10.0.0.5", "a")
	bare.Labels = nil
	gateway := address("10.0.0.5", "a")
	gateway.Spec.ParentRef.Group, gateway.Spec.ParentRef.Resource = "gateway.networking.k8s.io", "gateways"
	for name, a := range map[string]*networkingv1.IPAddress{
		"no labels": bare, "of something else": gateway, "of no Service": address("10.0.0.5", "gone"), "of another's": address("10.0.0.5", "b"),
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Bubble(t, New, func(_ context.Context, f *client.Fake) {
				if got := holder(t, f, "10.0.0.5"); got != "a" {
					t.Errorf("of %q", got)
				}
			}, service("a", "10.0.0.5"), service("b", "10.0.0.6"), a)
		})
	}
}

// Of two Services with one address neither loses it to the other.
func TestSharedStays(t *testing.T) {
	controllertest.Bubble(t, New, func(_ context.Context, f *client.Fake) {
		time.Sleep(time.Hour)
		if got := holder(t, f, "10.0.0.5"); got != "b" {
			t.Errorf("of %q", got)
		}
	}, service("a", "10.0.0.5"), service("b", "10.0.0.5"), address("10.0.0.5", "b"))
}

func TestLeakedGoes(t *testing.T) {
	foreign := address("10.0.0.9", "gone")
	foreign.Labels = map[string]string{networkingv1.LabelManagedBy: "somebody", networkingv1.LabelIPAddressFamily: "IPv4"}
	controllertest.Bubble(t, New, func(ctx context.Context, f *client.Fake) {
		f.Put(address("10.0.0.5", "unborn"))
		time.Sleep(unborn - time.Second)
		if got := holder(t, f, "10.0.0.5"); got != "unborn" {
			t.Errorf("early: of %q", got)
		}
		time.Sleep(3 * time.Second)
		if got := holder(t, f, "10.0.0.5"); got != "" {
			t.Errorf("leaked: of %q", got)
		}
		if _, err := client.Get[*networkingv1.IPAddress](ctx, f, schema.Key{Name: "10.0.0.9"}); err != nil {
			t.Errorf("somebody's: %v", err)
		}
	}, foreign)
}

func TestOutOfRangeIsLeftAlone(t *testing.T) {
	p := check(service("a", "10.1.0.5"), wanted(service("a", "10.1.0.5"))[0], nil,
		[]*networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24"}}}}, nil)
	if p.create || p.reason != "ClusterIPOutOfRange" {
		t.Errorf("%+v", p)
	}
}
