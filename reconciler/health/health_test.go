package health

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

func ptr[T any](v T) *T { return &v }

func TestOf(t *testing.T) {
	now := metav1.Now()
	deploy := func(generation int64, s appsv1.DeploymentStatus) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(3))}, Status: s}
	}
	jobWith := func(c ...batchv1.JobCondition) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Conditions: c}}
	}
	podWith := func(s corev1.PodStatus) *corev1.Pod { return &corev1.Pod{Status: s} }
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}}
	}
	sts := func(s appsv1.StatefulSetStatus, strategy appsv1.StatefulSetUpdateStrategy) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(3)), UpdateStrategy: strategy}, Status: s}
	}
	half := appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 1}
	for name, tt := range map[string]struct {
		o    schema.Object
		want Status
	}{
		"missing":                 {nil, Missing},
		"ending":                  {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, Progressing},
		"config":                  {&corev1.ConfigMap{}, Healthy},
		"deployment unseen":       {deploy(2, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), Progressing},
		"deployment done":         {deploy(1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), Healthy},
		"deployment not updated":  {deploy(1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 3}), Progressing},
		"deployment with old":     {deploy(1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 3}), Progressing},
		"deployment not ready":    {deploy(1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}), Progressing},
		"deployment out of time":  {deploy(1, appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}}), Degraded},
		"deployment without pods": {deploy(1, appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue}}}), Degraded},
		"statefulset half":        {sts(half, appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}), Progressing},
		"statefulset partition":   {sts(half, appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr(int32(2))}}), Healthy},
		"statefulset on delete":   {sts(half, appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}), Healthy},
		"daemonset on no node":    {&appsv1.DaemonSet{}, Healthy},
		"daemonset half":          {&appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 1}}, Progressing},
		"replicaset":              {&appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 1, ReadyReplicas: 1}}, Healthy},
		"job running":             {jobWith(), Progressing},
		"job complete":            {jobWith(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}), Healthy},
		"job failed":              {jobWith(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}), Degraded},
		"job failed no more":      {jobWith(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionFalse}), Progressing},
		"pod pulling":             {podWith(waiting("ContainerCreating")), Progressing},
		"pod crashing":            {podWith(waiting("CrashLoopBackOff")), Degraded},
		"pod ready":               {podWith(corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}), Healthy},
		"pod done":                {podWith(corev1.PodStatus{Phase: corev1.PodSucceeded}), Healthy},
		"pod failed":              {podWith(corev1.PodStatus{Phase: corev1.PodFailed}), Degraded},
		"claim pending":           {&corev1.PersistentVolumeClaim{}, Progressing},
		"claim bound":             {&corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}, Healthy},
		"claim lost":              {&corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost}}, Degraded},
		"balancer without":        {&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}, Progressing},
		"service":                 {&corev1.Service{}, Healthy},
		"namespace ending":        {&corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}, Progressing},
	} {
		got := Of(tt.o)
		if got.Status != tt.want {
			t.Errorf("%s: %s (%s), want %s", name, got.Status, got.Message, tt.want)
		}
		if got.Status != Healthy && got.Message == "" {
			t.Errorf("%s: %s says no reason", name, got.Status)
		}
	}
}
