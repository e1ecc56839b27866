package kinds

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

func TestRegisteredTwice(t *testing.T) {
	pods := func() *kind.Kind { return &kind.Kind{Resource: schema.ResourceFor[*corev1.Pod]()} }
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "pods is registered twice") {
			t.Errorf("two kinds of pods: panic %q", text)
		}
	}()
	table([]*kind.Kind{pods(), pods()})
}

// TestStored: rules work on the version in which the store keeps the objects.
func TestStored(t *testing.T) {
	for k := range All() {
		if k.Resource.Stored() != k.Resource {
			t.Errorf("%s: its resource is not the stored one", k.Resource)
		}
		if Of(k.Resource) != k {
			t.Errorf("%s: Of finds another one", k.Resource)
		}
	}
}
