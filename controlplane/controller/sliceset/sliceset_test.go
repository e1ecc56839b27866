package sliceset_test

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/sliceset"
	"github.com/writ-os/writ/schema"
)

const ours sliceset.Manager = "ours"

func slice(name, service, manager string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: manager}}}
}

// TestTheirs: slices of another manager, or of another Service, wake nobody
// and are not found.
func TestTheirs(t *testing.T) {
	web := schema.Key{Namespace: "default", Name: "web"}
	going := slice("web-3", "web", "ours")
	going.DeletionTimestamp, going.Finalizers = ptr.To(metav1.Now()), []string{"example.com/x"}
	f := client.NewFake(slice("web-1", "web", "ours"), slice("web-2", "web", "theirs"), slice("db-1", "db", "ours"), going)
	if got := ours.Of(f.Cache(), web); len(got) != 1 || got[0].Name != "web-1" {
		t.Errorf("%v", got)
	}
	for manager, want := range map[string]int{"ours": 1, "theirs": 0, "": 0} {
		keys := ours.Watch().Map(client.Event{Type: client.Modified, Object: slice("x", "web", manager)})
		if len(keys) != want || want == 1 && keys[0] != web {
			t.Errorf("%s wakes %v", manager, keys)
		}
	}
}

func TestWrite(t *testing.T) {
	f := client.NewFake(slice("web-1", "web", "ours"), slice("web-2", "web", "ours"))
	changed, err := client.Get[*discoveryv1.EndpointSlice](t.Context(), f, schema.Key{Namespace: "default", Name: "web-1"})
	if err != nil {
		t.Fatal(err)
	}
	changed = changed.DeepCopy()
	changed.AddressType = discoveryv1.AddressTypeIPv6
	c := sliceset.Changes{
		Create: []*discoveryv1.EndpointSlice{slice("web-3", "web", "ours")}, Update: []*discoveryv1.EndpointSlice{changed},
		Remove: []*discoveryv1.EndpointSlice{slice("web-2", "web", "ours"), slice("gone", "web", "ours")},
	}
	if err := c.Write(t.Context(), f, "default/web"); err != nil {
		t.Fatal(err)
	}
	got := ours.Of(f.Cache(), schema.Key{Namespace: "default", Name: "web"})
	if len(got) != 2 || got[0].Name != "web-1" || got[0].AddressType != changed.AddressType || got[1].Name != "web-3" {
		t.Errorf("%v", got)
	}
}

func TestGroupKey(t *testing.T) {
	port := func(name string, n int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: &n}
	}
	key := func(ports ...discoveryv1.EndpointPort) string {
		return sliceset.GroupKey(discoveryv1.AddressTypeIPv4, ports)
	}
	a, b := port("a", 80), port("b", 81)
	if key(a, b) != key(b, a) {
		t.Error("the order of ports counts")
	}
	for _, other := range []string{key(), key(a), key(a, port("b", 82)), key(port("a/b", 80)), sliceset.GroupKey(discoveryv1.AddressTypeIPv6, []discoveryv1.EndpointPort{a, b})} {
		if other == key(a, b) {
			t.Errorf("%s is another group", other)
		}
	}
}
