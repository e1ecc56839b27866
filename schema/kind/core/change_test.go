package core_test

import (
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/kind/core"
)

// TestChangeErrors holds what is said of changes of pods, through each door,
// against the causes that kube-apiserver 1.36.4 answered: the old spec, the new
// one in a file named by its door, the causes.
func TestChangeErrors(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/changes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+2 < len(archive.Files); i += 3 {
		was, is, want := archive.Files[i], archive.Files[i+1], archive.Files[i+2]
		t.Run(was.Name, func(t *testing.T) {
			old, o := pod(t, was.Data), pod(t, is.Data)
			var errs field.ErrorList
			switch door := path.Base(is.Name); door {
			case "update":
				errs = core.PodUpdateErrors(o, old)
			case "ephemeralcontainers":
				errs = core.EphemeralErrors(o, old)
			case "resize":
				quality := corev1.PodQOSBurstable
				if _, ok := o.Spec.InitContainers[0].Resources.Limits[corev1.ResourceCPU]; ok {
					quality = corev1.PodQOSGuaranteed
				}
				errs = core.ResizeErrors(o, old, corev1.PodQOSBurstable, quality)
			default:
				t.Fatalf("no door %q", door)
			}
			if diff := cmp.Diff(string(want.Data), text(errs)); diff != "" {
				t.Errorf("causes (-upstream +ours):\n%s", diff)
			}
		})
	}
}

// TestObjectErrors does the same for new objects of the other kinds.
func TestObjectErrors(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/objects.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		in, want := archive.Files[i], archive.Files[i+1]
		t.Run(in.Name, func(t *testing.T) {
			if diff := cmp.Diff(string(want.Data), text(objectErrors(t, in.Data))); diff != "" {
				t.Errorf("causes (-upstream +ours):\n%s", diff)
			}
		})
	}
}

func objectErrors(t *testing.T, data []byte) field.ErrorList {
	t.Helper()
	var kind struct{ Kind string }
	read(t, data, &kind)
	switch kind.Kind {
	case "Node":
		return core.NodeErrors(read(t, data, &corev1.Node{}))
	case "PersistentVolume":
		return core.VolumeErrors(defaulted(read(t, data, &corev1.PersistentVolume{})))
	case "PersistentVolumeClaim":
		return core.ClaimErrors(defaulted(read(t, data, &corev1.PersistentVolumeClaim{})))
	case "ResourceQuota":
		return core.QuotaErrors(read(t, data, &corev1.ResourceQuota{}))
	case "LimitRange":
		return core.LimitRangeErrors(defaulted(read(t, data, &corev1.LimitRange{})))
	}
	t.Fatalf("no kind %q", kind.Kind)
	return nil
}

func read[T any](t *testing.T, data []byte, o T) T {
	t.Helper()
	if err := yaml.Unmarshal(data, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func defaulted[T schema.Object](o T) T {
	defaults.Apply(o)
	return o
}

func pod(t *testing.T, data []byte) *corev1.Pod {
	t.Helper()
	o := read(t, data, &corev1.Pod{})
	o.Name, o.Namespace, o.ResourceVersion = "p", "default", "1"
	o.Status.QOSClass = corev1.PodQOSBurstable
	return defaulted(o)
}
