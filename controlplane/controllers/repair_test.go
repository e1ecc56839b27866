package controllers_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/controlplane/controllers/legacytokencleaner"
	"github.com/writ-os/writ/schema"
)

func service(name, ip string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Selector: selector, ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: "TCP"}}},
	}
}

// An IPAddress of a Service that somebody deletes is back, and goes with its
// Service.
func TestAddressOfServiceIsBack(t *testing.T) {
	over(t, 0, func(t *testing.T, c *cluster) {
		c.create(service("web", "10.96.0.9", map[string]string{"app": "web"}))
		key := schema.Key{Name: "10.96.0.9"}
		address := func() *networkingv1.IPAddress {
			a, err := client.Get[*networkingv1.IPAddress](t.Context(), c.Backend, key)
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			return a
		}
		c.eventually("an address", 10*time.Second, func() bool { return address() != nil })
		first := address()
		if ref := first.Spec.ParentRef; ref == nil || ref.Resource != "services" || ref.Namespace != "default" || ref.Name != "web" {
			t.Errorf("it belongs to %+v", ref)
		}
		if err := client.Delete[*networkingv1.IPAddress](t.Context(), c.Backend, key, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.eventually("it is back", 30*time.Second, func() bool { a := address(); return a != nil && a.UID != first.UID })
		if !c.bubble { // a new address may be without its Service for a minute
			return
		}
		if err := client.Delete[*corev1.Service](t.Context(), c.Backend, schema.Key{Namespace: "default", Name: "web"}, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.eventually("it is gone", 5*time.Minute, func() bool { return address() == nil })
	})
}

// Machines that join find cluster-info, also after somebody has deleted it.
func TestClusterInfoIsBack(t *testing.T) {
	over(t, 0, func(t *testing.T, c *cluster) {
		key := schema.Key{Namespace: "kube-public", Name: "cluster-info"}
		published := func() bool {
			_, err := client.Get[*corev1.ConfigMap](t.Context(), c.Backend, key)
			return err == nil && len(list[*rbacv1.Role](c, "kube-public")) == 1 && len(list[*rbacv1.RoleBinding](c, "kube-public")) == 1
		}
		c.eventually("published", 10*time.Second, published)
		if err := client.Delete[*corev1.ConfigMap](t.Context(), c.Backend, key, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.eventually("published again", 30*time.Second, published)
	})
}

// Endpoints that a person writes are mirrored, followed, and forgotten.
func TestEndpointsAreMirrored(t *testing.T) {
	over(t, 0, func(t *testing.T, c *cluster) {
		c.create(service("db", "10.96.0.10", nil))
		c.create(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, //nolint:staticcheck // what is mirrored
			Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.7"}}, Ports: []corev1.EndpointPort{{Port: 5432, Protocol: "TCP"}}}}}) //nolint:staticcheck // what is mirrored
		addresses := func() (all []string) {
			for _, s := range list[*discoveryv1.EndpointSlice](c, "default") {
				if s.Labels[discoveryv1.LabelServiceName] == "db" && s.Labels[discoveryv1.LabelManagedBy] == "endpointslicemirroring-controller.k8s.io" {
					for _, e := range s.Endpoints {
						all = append(all, e.Addresses...)
					}
				}
			}
			return all
		}
		c.eventually("mirrored", 10*time.Second, func() bool { a := addresses(); return len(a) == 1 && a[0] == "192.0.2.7" })
		update(c, "default", "db", func(e *corev1.Endpoints) { //nolint:staticcheck // what is mirrored
			e.Subsets[0].Addresses = []corev1.EndpointAddress{{IP: "192.0.2.8"}, {IP: "192.0.2.9"}} //nolint:staticcheck // what is mirrored
		})
		c.eventually("followed", 10*time.Second, func() bool { a := addresses(); return len(a) == 2 && a[0] != "192.0.2.7" })
		if err := client.Delete[*corev1.Endpoints](t.Context(), c.Backend, schema.Key{Namespace: "default", Name: "db"}, client.DeleteOptions{}); err != nil { //nolint:staticcheck // what is mirrored
			t.Fatal(err)
		}
		c.eventually("forgotten", 20*time.Second, func() bool { return len(addresses()) == 0 })
	})
}

// A token that nobody has used for a year is out of use, and gone after another;
// one that a person has made stays.
func TestUnusedTokensGo(t *testing.T) {
	test := func(t *testing.T, b client.Backend, wait func()) {
		t.Helper()
		create := func(o schema.Object) {
			t.Helper()
			if _, err := b.Create(t.Context(), schema.ResourceOf(o), o, client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, ns := range []string{"default", "kube-system"} {
			create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		}
		create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"},
			Data: map[string]string{"since": time.Now().Format(time.DateOnly)}})
		create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sa"}, Secrets: []corev1.ObjectReference{{Name: "made"}}})
		for _, name := range []string{"made", "own"} {
			create(&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"}}})
		}
		// Each run is a year and some days after the one before.
		for year, want := range []string{"made own", "made- own", "own"} {
			at := time.Now().AddDate(year, 0, 7*year)
			r := legacytokencleaner.New(legacytokencleaner.Config{Tools: controller.Tools{Client: b, Cache: b.Cache(), Clock: func() time.Time { return at }}})
			stop := controllertest.Start(t, b, r, 1)
			got := ""
			for begin := time.Now(); got != want && time.Since(begin) < 20*time.Second; wait() {
				got = ""
				for _, s := range client.CachedList[*corev1.Secret](b.Cache(), "default") {
					if got != "" {
						got += " "
					}
					got += s.Name
					if s.Labels["kubernetes.io/legacy-token-invalid-since"] != "" {
						got += "-"
					}
				}
			}
			stop()
			if got != want {
				t.Errorf("after %d years there is %q, want %q", year, got, want)
			}
		}
	}
	t.Run("fake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, client.NewFake(), func() { time.Sleep(time.Second); synctest.Wait() })
		})
	})
	t.Run("registry", func(t *testing.T) {
		test(t, openRegistry(t), func() { time.Sleep(5 * time.Millisecond) })
	})
}
