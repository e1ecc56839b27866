package update

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// fieldManager is who writes the annotations, for managedFields.
const fieldManager = "node-update"

// maxMessage bounds a message, in bytes.
const maxMessage = 1024

// Report is what a node tells: its annotations by their keys; "" is none.
type Report map[string]string

// report is what is told of an action.
func report(s *slot.State, a Action) Report {
	r := Report{
		v1alpha1.KernelArgumentsAnnotation: v1alpha1.KernelArgumentsHash(s.Arguments),
		v1alpha1.UpdatePhaseAnnotation:     string(a.Phase),
		v1alpha1.UpdateMessageAnnotation:   strings.ToValidUTF8(a.Message[:min(len(a.Message), maxMessage)], ""),
		v1alpha1.UpdateFailedAnnotation:    "",
		v1alpha1.ImageAnnotation:           "",
	}
	if c := s.Current(); c != nil {
		r[v1alpha1.ImageAnnotation] = c.Version
	}
	if a.Failure != nil {
		r[v1alpha1.UpdateFailedAnnotation] = a.Failure.Image
	}
	return r
}

// orderOf reads what the controller wants.
func orderOf(n *corev1.Node) Order {
	return Order{
		Image:     n.Annotations[v1alpha1.DesiredImageAnnotation],
		Arguments: n.Annotations[v1alpha1.DesiredKernelArgumentsAnnotation],
		Reboot:    n.Annotations[v1alpha1.RebootAnnotation],
	}
}

// patch is what brings the annotations of a node to what is told; nil when they
// are that already.
func (r Report) patch(n *corev1.Node) ([]byte, error) {
	change := map[string]any{}
	for key, want := range r {
		switch have, ok := n.Annotations[key]; {
		case want == "" && ok:
			change[key] = nil
		case want != have:
			change[key] = want
		}
	}
	if len(change) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": change}})
	if err != nil {
		return nil, fmt.Errorf("encode report of node %s: %w", n.Name, err)
	}
	return b, nil
}

// tell writes the report, if there is anything new.
func tell(ctx context.Context, c client.Writer, n *corev1.Node, r Report) error {
	b, err := r.patch(n)
	if err != nil || b == nil {
		return err
	}
	_, err = c.Patch(ctx, schema.ResourceFor[*corev1.Node](), schema.Key{Name: n.Name}, types.MergePatchType, b, client.WriteOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("report update of node %s: %w", n.Name, err)
	}
	return nil
}
