package endpointslicemirroring

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func endpoints(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Subsets: subsets}
}

// subset reads addresses, those that are not ready with a "!", and port numbers.
func subset(addresses string, ports ...int32) corev1.EndpointSubset {
	var s corev1.EndpointSubset
	for _, a := range strings.Fields(addresses) {
		if ip, not := strings.CutPrefix(a, "!"); not {
			s.NotReadyAddresses = append(s.NotReadyAddresses, corev1.EndpointAddress{IP: ip})
		} else {
			s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: a})
		}
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, corev1.EndpointPort{Name: fmt.Sprint("p", p), Port: p, Protocol: corev1.ProtocolTCP})
	}
	return s
}

func service(selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: corev1.ServiceSpec{Selector: selector}}
}

// text is what slices say, a line each, in order.
func text(all []*discoveryv1.EndpointSlice) string {
	var lines []string
	for _, s := range all {
		var ends, ports []string
		for _, e := range s.Endpoints {
			ends = append(ends, map[bool]string{false: "!"}[*e.Conditions.Ready]+e.Addresses[0])
		}
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprint(*p.Port))
		}
		slices.Sort(ends)
		lines = append(lines, fmt.Sprintf("%s %s: %s", s.AddressType, strings.Join(ports, ","), strings.Join(ends, " ")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name    string
		subsets []corev1.EndpointSubset
		want    string
		invalid int
	}{
		{"none", nil, "", 0},
		{"one", []corev1.EndpointSubset{subset("10.0.0.1 !10.0.0.2", 80)}, "IPv4 80: !10.0.0.2 10.0.0.1", 0},
		{"families", []corev1.EndpointSubset{subset("10.0.0.1 fd00::1", 80)}, "IPv4 80: 10.0.0.1\nIPv6 80: fd00::1", 0},
		{"same ports", []corev1.EndpointSubset{subset("10.0.0.1", 80), subset("10.0.0.2", 80)}, "IPv4 80: 10.0.0.1 10.0.0.2", 0},
		{"same addresses", []corev1.EndpointSubset{subset("10.0.0.1", 80), subset("10.0.0.1", 443)}, "IPv4 80,443: 10.0.0.1", 0},
		{"ready and not", []corev1.EndpointSubset{subset("10.0.0.1", 80), subset("!10.0.0.1", 80)}, "IPv4 80: !10.0.0.1", 0},
		{"no ports", []corev1.EndpointSubset{subset("10.0.0.1")}, "IPv4 : 10.0.0.1", 0},
		{"invalid", []corev1.EndpointSubset{subset("10.0.0.1 nowhere", 80)}, "IPv4 80: 10.0.0.1", 1},
	} {
		d := plan(endpoints(tt.subsets...), nil)
		if got := text(d.Create); got != tt.want || d.invalid != tt.invalid || d.skipped != tt.invalid {
			t.Errorf("%s: %s (%d invalid, %d skipped), want %s", tt.name, got, d.invalid, d.skipped, tt.want)
		}
		// What is there as it should be is left alone.
		for i, s := range d.Create {
			s.Name = fmt.Sprint("s", i)
		}
		if again := plan(endpoints(tt.subsets...), d.Create); len(again.Create)+len(again.Update)+len(again.Remove) > 0 {
			t.Errorf("%s: again %+v", tt.name, again)
		}
	}
	var many []string
	for i := range maxAddresses + 5 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	if d := plan(endpoints(subset(strings.Join(many, " "), 80)), nil); d.skipped != 5 || len(d.Create) != 1 || len(d.Create[0].Endpoints) != maxAddresses {
		t.Errorf("%d skipped, %d slices", d.skipped, len(d.Create))
	}
}

func mirroredSlices(t *testing.T, f *client.Fake) []*discoveryv1.EndpointSlice {
	t.Helper()
	return client.CachedList[*discoveryv1.EndpointSlice](f.Cache(), "default")
}

func TestFollows(t *testing.T) {
	first := endpoints(subset("10.0.0.1", 80))
	first.Labels, first.Annotations = map[string]string{"team": "a"}, map[string]string{"note": "n", corev1.LastAppliedConfigAnnotation: "{}"}
	controllertest.Bubble(t, New, func(ctx context.Context, f *client.Fake) {
		all := mirroredSlices(t, f)
		if len(all) != 1 || text(all) != "IPv4 80: 10.0.0.1" {
			t.Fatalf("%s", text(all))
		}
		s := all[0]
		if s.Labels["team"] != "a" || s.Labels["kubernetes.io/service-name"] != "db" || len(s.Annotations) != 1 || s.Annotations["note"] != "n" {
			t.Errorf("labels %v, annotations %v", s.Labels, s.Annotations)
		}
		if o := metav1.GetControllerOf(s); o == nil || o.Kind != "Endpoints" || o.Name != "db" {
			t.Errorf("owner %+v", o)
		}
		f.Put(endpoints(subset("10.0.0.1 10.0.0.2", 443)))
		synctest.Wait()
		if all := mirroredSlices(t, f); text(all) != "IPv4 443: 10.0.0.1 10.0.0.2" || all[0].Name != s.Name {
			t.Errorf("changed ports: %s, slice %s after %s", text(all), all[0].Name, s.Name)
		}
		// Somebody deletes the slice.
		if err := client.Delete[*discoveryv1.EndpointSlice](ctx, f, schema.KeyOf(s), client.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(mirroredSlices(t, f)) != 1 {
			t.Error("a deleted slice stays away")
		}
		f.Put(service(map[string]string{"app": "db"})) // another controller's now
		synctest.Wait()
		if all := mirroredSlices(t, f); len(all) > 0 {
			t.Errorf("with a selector: %s", text(all))
		}
	}, service(nil), first)
}

func TestLeftAlone(t *testing.T) {
	skip, lock := endpoints(subset("10.0.0.1", 80)), endpoints(subset("10.0.0.1", 80))
	skip.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
	lock.Annotations = map[string]string{leader: "{}"}
	for name, objects := range map[string][]schema.Object{
		"label": {service(nil), skip}, "lock": {service(nil), lock}, "no Service": {endpoints(subset("10.0.0.1", 80))},
		"selector": {service(map[string]string{"a": "b"}), endpoints(subset("10.0.0.1", 80))},
	} {
		controllertest.Bubble(t, New, func(_ context.Context, f *client.Fake) {
			if all := mirroredSlices(t, f); len(all) > 0 {
				t.Errorf("%s: %s", name, text(all))
			}
		}, objects...)
	}
}
