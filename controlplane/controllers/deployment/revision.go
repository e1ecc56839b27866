package deployment

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"

	"github.com/writ-os/writ/schema"
)

// The annotations that kubectl rollout reads.
const (
	annRevision = "deployment.kubernetes.io/revision"
	annHistory  = "deployment.kubernetes.io/revision-history"
	annDesired  = "deployment.kubernetes.io/desired-replicas"
	annMax      = "deployment.kubernetes.io/max-replicas"
)

// notCopied are annotations of a Deployment that mean only itself.
var notCopied = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true,
	annRevision:                        true,
	annHistory:                         true,
	annDesired:                         true,
	annMax:                             true,
	appsv1.DeprecatedRollbackTo:        true,
}

// maxHistory bounds the length of the history annotation.
const maxHistory = 2000

// templateHash is upstream's, so that clusters can be moved with their pods.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*t))
	if collisions != nil {
		b := make([]byte, 8)
		binary.LittleEndian.PutUint32(b, uint32(*collisions))
		h.Write(b)
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

func annotatedNumber(rs *appsv1.ReplicaSet, name string) (int32, bool) {
	n, err := strconv.ParseInt(rs.Annotations[name], 10, 32)
	return int32(n), err == nil
}

// revision is the number of a ReplicaSet in the rollout history; 0 for none.
func revision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[annRevision], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// nextRevision is the number for the current ReplicaSet: above all others.
func nextRevision(w world) int64 {
	highest := int64(0)
	for _, rs := range w.old {
		highest = max(highest, revision(rs))
	}
	return highest + 1
}

// newSet returns the ReplicaSet for the Deployment's template.
func newSet(w world, replicas int32) *appsv1.ReplicaSet {
	d := w.d
	hash := templateHash(&d.Spec.Template, d.Status.CollisionCount)
	template := d.Spec.Template.DeepCopy()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	selector := d.Spec.Selector.DeepCopy()
	selector = metav1.AddLabelToSelector(selector, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	rs := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			Name:            d.Name + "-" + hash,
			Labels:          template.DeepCopy().Labels,
			Annotations:     map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, schema.ResourceOf(d).GVK())},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        &replicas,
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        *template,
		},
	}
	annotate(d, rs, nextRevision(w))
	annotateSize(d, rs)
	return rs
}

// annotate copies the Deployment's annotations and sets the revision. A
// ReplicaSet that was current before keeps its earlier numbers in a history.
func annotate(d *appsv1.Deployment, rs *appsv1.ReplicaSet, number int64) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	for k, v := range d.Annotations {
		if !notCopied[k] {
			rs.Annotations[k] = v
		}
	}
	before, had := rs.Annotations[annRevision]
	if number <= revision(rs) {
		return
	}
	rs.Annotations[annRevision] = strconv.FormatInt(number, 10)
	if had {
		rs.Annotations[annHistory] = appendHistory(rs.Annotations[annHistory], before)
	}
}

// appendHistory adds a number to a list, and drops the oldest of one too long.
func appendHistory(history, number string) string {
	if history == "" {
		return number
	}
	history += "," + number
	for len(history) > maxHistory {
		_, rest, ok := strings.Cut(history, ",")
		if !ok {
			break
		}
		history = rest
	}
	return history
}

// annotateSize notes the Deployment's size, by which a later change is shared.
func annotateSize(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	rs.Annotations[annDesired] = strconv.Itoa(int(wanted(d)))
	rs.Annotations[annMax] = strconv.Itoa(int(wanted(d) + maxSurge(d)))
}
