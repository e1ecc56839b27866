package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/kind/core"
)

// TestPodErrors holds what is said of the mistakes that people make in pods
// against the causes that kube-apiserver 1.36.4 answered, in their order.
func TestPodErrors(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/pods.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		in, want := archive.Files[i], archive.Files[i+1]
		t.Run(in.Name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if err := yaml.Unmarshal(in.Data, pod); err != nil {
				t.Fatal(err)
			}
			pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			pod.Name, pod.Namespace = "p", "default"
			pod.Spec.ServiceAccountName = "default" // from admission, as all that follows
			defaults.Apply(pod)
			if diff := cmp.Diff(string(want.Data), text(core.PodErrors(pod))); diff != "" {
				t.Errorf("causes (-upstream +ours):\n%s", diff)
			}
		})
	}
}

// text is one cause on a line.
func text(errs field.ErrorList) string {
	var b strings.Builder
	for _, e := range errs {
		fmt.Fprintf(&b, "%s: %s\n", e.Field, strings.ReplaceAll(e.ErrorBody(), "\n", `\n`))
	}
	return b.String()
}
