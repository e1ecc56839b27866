// Package health says whether an object is what its author wanted it to be:
// Healthy, on its way there (Progressing), or stuck (Degraded), by the
// conventions of kstatus.
//
// It watches nothing and owns nothing: Of is a function of one object.
package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"

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
}

func healthy() Health { return Health{Status: Healthy} }

func progressing(format string, args ...any) Health {
	return Health{Progressing, fmt.Sprintf(format, args...)}
}

func degraded(format string, args ...any) Health {
	return Health{Degraded, fmt.Sprintf(format, args...)}
}

// Of returns the health of an object; nil is Missing. Kinds that nothing acts
// on are healthy as soon as they exist.
func Of(o schema.Object) Health {
	if o == nil {
		return Health{Missing, "does not exist"}
	}
	if o.GetDeletionTimestamp() != nil {
		return progressing("is being deleted")
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		return deployment(o)
	case *appsv1.ReplicaSet:
		return replicas(o.Generation, o.Status.ObservedGeneration, o.Spec.Replicas, o.Status.ReadyReplicas, o.Status.Replicas)
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
	}
	return other(o)
}

// other is the health of kinds that do not run anything.
func other(o schema.Object) Health {
	switch o := o.(type) {
	case *corev1.Service:
		if o.Spec.Type == corev1.ServiceTypeLoadBalancer && len(o.Status.LoadBalancer.Ingress) == 0 {
			return progressing("has no load balancer address yet")
		}
	case *corev1.PersistentVolumeClaim:
		switch o.Status.Phase {
		case corev1.ClaimBound:
		case corev1.ClaimLost:
			return degraded("the volume of the claim is lost")
		default:
			return progressing("the claim is not bound to a volume")
		}
	case *corev1.PersistentVolume:
		if o.Status.Phase == corev1.VolumeFailed {
			return degraded("the volume has failed: %s", o.Status.Message)
		}
	case *corev1.Namespace:
		if o.Status.Phase == corev1.NamespaceTerminating {
			return progressing("the namespace is ending")
		}
	case *networkingv1.Ingress, *policyv1.PodDisruptionBudget:
		return healthy()
	case *v1alpha1.Repository:
		for _, c := range o.Status.Conditions {
			if c.Type == "Ready" && c.Status == "False" {
				return degraded("%s", c.Message)
			}
		}
	}
	return healthy()
}
