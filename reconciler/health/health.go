// Package health says whether an object is what its author wanted it to be:
// Healthy, on its way there (Progressing), or stuck (Degraded). Built-in kinds
// are judged as kstatus and Argo CD judge them, custom resources by the
// conventions of kstatus, and both by the rules that users write in CUE, in
// the files health/*.cue of the repository and of the folder that the cluster
// follows.
//
// It watches nothing and owns nothing: Of is a function of one object. It
// promises that what is wrong with a rule is a finding at its line, and that a
// rule costs a bounded time.
//
// A rule says which objects it means, and what they look like when they are
// healthy; until then they are Progressing. It goes before the built-in
// judgement of the kind. Where several rules mean an object, the worst holds.
//
//	package health
//
//	rules: "database": {
//		match: {apiVersion: "db.example.com/v1", kind: "Database"}
//		healthy: status: phase:  "Running"
//		degraded: status: phase: "Broken" | "Lost"
//		message: "the database is \(object.status.phase)"
//	}
//
//	rules: "certificate": {
//		match: kind: "Certificate"
//		healthy: conditions: Ready: status:   "True"
//		degraded: conditions: Issuing: reason: "Failed"
//		message: object.conditions.Ready.message
//	}
//
// A pattern holds when the object has all of it. Conditions, by their type, is
// what status.conditions says, so that nobody has to search a list; object is
// the object itself, to compare one field with another or to tell of it.
package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Status is how an object is.
type Status string

// The statuses, from good to bad.
const (
	Healthy     Status = "Healthy"
	Progressing Status = "Progressing"
	Degraded    Status = "Degraded"
	// Missing is an object that is declared and not there.
	Missing Status = "Missing"
)

// Health is a status with its reason in a sentence; the sentence may be empty
// for Healthy.
type Health struct {
	Status  Status
	Message string
	// Stalled says of a Degraded object that no time mends it: somebody has to
	// change what is declared, or to act. kstatus calls it so.
	Stalled bool
}

func healthy() Health { return Health{Status: Healthy} }

func progressing(format string, args ...any) Health {
	return Health{Status: Progressing, Message: fmt.Sprintf(format, args...)}
}

func stalled(format string, args ...any) Health {
	return Health{Status: Degraded, Message: fmt.Sprintf(format, args...), Stalled: true}
}

func degraded(format string, args ...any) Health {
	return Health{Status: Degraded, Message: fmt.Sprintf(format, args...)}
}

// Of returns the health of an object by the built-in judgement; nil is Missing.
// Kinds that nothing acts on are healthy as soon as they exist.
func Of(o schema.Object) Health { return In(o, nil) }

// Live is the cluster as it is; client.Cache is one.
type Live interface {
	Get(r *schema.Resource, key schema.Key) (schema.Object, bool)
}

// In is Of, and looks at other objects where the health of one depends on them:
// whether the class of a claim waits for a pod. live may be nil.
func In(o schema.Object, live Live) Health {
	if o == nil {
		return Health{Status: Missing, Message: "does not exist"}
	}
	if o.GetDeletionTimestamp() != nil {
		return ending(o)
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		return deployment(o)
	case *appsv1.ReplicaSet:
		return replicaSet(o)
	case *corev1.ReplicationController:
		return replicas(o.Generation, o.Status.ObservedGeneration, o.Spec.Replicas, o.Status.ReadyReplicas, o.Status.Replicas)
	case *appsv1.StatefulSet:
		return statefulSet(o)
	case *appsv1.DaemonSet:
		return daemonSet(o)
	case *batchv1.Job:
		return job(o)
	case *corev1.Pod:
		return pod(o)
	case *corev1.PersistentVolumeClaim:
		return claim(o, live)
	case *unstructured.Unstructured:
		return custom(o)
	}
	return other(o)
}

// other is the health of kinds that do not run anything themselves. Those that
// are not named exist, and that is all there is to them. Among them on purpose:
// an Ingress without an address serves on every node; a CronJob is what its
// author wanted whatever its last run came to (kstatus); an EndpointSlice and a
// NetworkPolicy say nothing of themselves.
func other(o schema.Object) Health {
	switch o := o.(type) {
	case *corev1.Service:
		if o.Spec.Type == corev1.ServiceTypeLoadBalancer && len(o.Status.LoadBalancer.Ingress) == 0 {
			return progressing("has no load balancer address yet")
		}
	case *corev1.PersistentVolume:
		if o.Status.Phase == corev1.VolumeFailed {
			return degraded("the volume has failed: %s", o.Status.Message)
		}
	case *corev1.Namespace:
		if o.Status.Phase == corev1.NamespaceTerminating {
			return ending(o)
		}
	case *corev1.Node:
		return node(o)
	case *policyv1.PodDisruptionBudget:
		return budget(o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		return autoscaler(o)
	case *autoscalingv1.HorizontalPodAutoscaler:
		return autoscalerV1(o)
	case *certificatesv1.CertificateSigningRequest:
		return signingRequest(o)
	case *networkingv1.ServiceCIDR:
		return serviceCIDR(o)
	case *resourcev1.ResourceClaim:
		return resourceClaim(o)
	case *apiextensionsv1.CustomResourceDefinition:
		return definition(o)
	case *apiregistrationv1.APIService:
		return apiService(o)
	case *v1alpha1.Repository:
		return repository(o)
	case *v1alpha1.NodePool:
		return nodePool(o)
	case *v1alpha1.NodeImage:
		return nodeImage(o)
	}
	return healthy()
}
