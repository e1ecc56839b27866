package replicaset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// kind is what the objects of a controller are. All decisions are made on a
// view of them as a ReplicaSet; pods name the object itself as their owner.
type kind struct {
	resource func() *schema.Resource
	view     func(schema.Object) *appsv1.ReplicaSet
	// withStatus returns a copy of an object with another status.
	withStatus func(schema.Object, appsv1.ReplicaSetStatus) schema.Object
}

var replicaSets = kind{
	resource: schema.ResourceFor[*appsv1.ReplicaSet],
	view:     func(o schema.Object) *appsv1.ReplicaSet { return o.(*appsv1.ReplicaSet) },
	withStatus: func(o schema.Object, s appsv1.ReplicaSetStatus) schema.Object {
		rs := o.(*appsv1.ReplicaSet).DeepCopy()
		rs.Status = s
		return rs
	},
}

var replicationControllers = kind{
	resource: schema.ResourceFor[*corev1.ReplicationController],
	view:     func(o schema.Object) *appsv1.ReplicaSet { return viewOf(o.(*corev1.ReplicationController)) },
	withStatus: func(o schema.Object, s appsv1.ReplicaSetStatus) schema.Object {
		rc := o.(*corev1.ReplicationController).DeepCopy()
		rc.Status = statusFrom(s)
		return rc
	},
}

// viewOf shows a ReplicationController as a ReplicaSet.
func viewOf(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{TypeMeta: rc.TypeMeta, ObjectMeta: rc.ObjectMeta, Spec: appsv1.ReplicaSetSpec{
		Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds, Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
	}}
	if rc.Spec.Template != nil {
		rs.Spec.Template = *rc.Spec.Template
	}
	rs.Status = appsv1.ReplicaSetStatus{
		Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas, ReadyReplicas: rc.Status.ReadyReplicas,
		AvailableReplicas: rc.Status.AvailableReplicas, ObservedGeneration: rc.Status.ObservedGeneration,
	}
	for _, c := range rc.Status.Conditions {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	return rs
}

// statusFrom is the status of a ReplicationController that says what that of a
// ReplicaSet says.
func statusFrom(s appsv1.ReplicaSetStatus) corev1.ReplicationControllerStatus {
	out := corev1.ReplicationControllerStatus{
		Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
		AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration,
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message})
	}
	return out
}

// told is a status without what objects of the kind cannot say.
func (k kind) told(s appsv1.ReplicaSetStatus) appsv1.ReplicaSetStatus {
	return k.view(k.withStatus(k.resource().New(), s)).Status
}
