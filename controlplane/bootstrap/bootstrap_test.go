package bootstrap

import (
	"encoding/json"
	"testing"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/validate"
)

// TestObjectsAreValid holds every object against the definition of its kind.
func TestObjectsAreValid(t *testing.T) {
	all := append(Objects(), ServiceCIDR("10.96.0.0/16"))
	seen := map[string]bool{}
	for _, o := range all {
		r := schema.ResourceOf(o)
		key := r.String() + "/" + o.GetName()
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range validate.JSON(r, data) {
			t.Errorf("%s: %s", key, f.Message)
		}
	}
	for _, key := range []string{
		"flowschemas.flowcontrol.apiserver.k8s.io/exempt", "flowschemas.flowcontrol.apiserver.k8s.io/catch-all",
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/system", "priorityclasses.scheduling.k8s.io/system-node-critical",
		"servicecidrs.networking.k8s.io/kubernetes",
	} {
		if !seen[key] {
			t.Errorf("there is no %s", key)
		}
	}
}

// served are the versions of the table and of the virtual kinds.
func served() []kschema.GroupVersion {
	out := []kschema.GroupVersion{{Group: "authentication.k8s.io", Version: "v1"}, {Group: "authorization.k8s.io", Version: "v1"}}
	seen := map[kschema.GroupVersion]bool{}
	for _, r := range schema.Resources {
		if gv := r.GVK().GroupVersion(); !seen[gv] {
			seen[gv] = true
			out = append(out, gv)
		}
	}
	return out
}

// TestEveryGroupHasAPriority keeps the priorities in step with the table.
func TestEveryGroupHasAPriority(t *testing.T) {
	have := map[kschema.GroupVersion]bool{}
	for _, gv := range served() {
		have[gv] = true
		if _, ok := priorities[gv]; !ok && gv.Group != "apiregistration.k8s.io" {
			t.Errorf("%s has no priority", gv)
		}
	}
	for gv := range priorities {
		if !have[gv] {
			t.Errorf("%s has a priority and is not served", gv)
		}
	}
}

// TestObjectsAreNew changes an object: the next caller must not see it.
func TestObjectsAreNew(t *testing.T) {
	for _, o := range Objects() {
		o.SetName("changed")
		o.SetAnnotations(nil)
	}
	for _, o := range Objects() {
		if o.GetName() == "changed" {
			t.Fatal("objects are shared")
		}
	}
}

func TestMandatory(t *testing.T) {
	n := 0
	for _, o := range Objects() {
		if Mandatory(o) {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d mandatory objects, want exempt and catch-all of both kinds", n)
	}
}
