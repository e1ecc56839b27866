package table

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/writ-os/writ/schema"
)

// Columns of kinds that run pods.
var _ = register(map[string]func(*Row) any{
	"containerNames":  func(r *Row) any { return containers(r.Object, func(c *corev1.Container) string { return c.Name }) },
	"containerImages": func(r *Row) any { return containers(r.Object, func(c *corev1.Container) string { return c.Image }) },
	"templateLabels":  func(r *Row) any { return labelText(r.Object.(*corev1.PodTemplate).Template.Labels) },
	"selector":        func(r *Row) any { return selector(r.Object) },
	"readyReplicas":   func(r *Row) any { return readyReplicas(r.Object) },
	"nodeSelector": func(r *Row) any {
		if t := template(r.Object); t != nil {
			return labelText(t.Spec.NodeSelector)
		}
		return none
	},

	"jobStatus":      func(r *Row) any { return jobStatus(r.Object.(*batchv1.Job)) },
	"jobCompletions": func(r *Row) any { return jobCompletions(r.Object.(*batchv1.Job)) },
	"jobDuration":    func(r *Row) any { return jobDuration(r, r.Object.(*batchv1.Job)) },
	"cronJobSuspend": func(r *Row) any { return cronJobSuspend(r.Object.(*batchv1.CronJob)) },
	"cronJobActive":  func(r *Row) any { return int64(len(r.Object.(*batchv1.CronJob).Status.Active)) },
	"cronJobLastSchedule": func(r *Row) any {
		if t := r.Object.(*batchv1.CronJob).Status.LastScheduleTime; t != nil {
			return r.since(*t)
		}
		return none
	},
})

// template returns the pod template of a workload, nil where there is none.
func template(o schema.Object) *corev1.PodTemplateSpec {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template
	case *appsv1.ReplicaSet:
		return &w.Spec.Template
	case *appsv1.StatefulSet:
		return &w.Spec.Template
	case *appsv1.DaemonSet:
		return &w.Spec.Template
	case *batchv1.Job:
		return &w.Spec.Template
	case *batchv1.CronJob:
		return &w.Spec.JobTemplate.Spec.Template
	case *corev1.ReplicationController:
		return w.Spec.Template
	case *corev1.PodTemplate:
		return &w.Template
	}
	return nil
}

func containers(o schema.Object, field func(*corev1.Container) string) string {
	t := template(o)
	if t == nil {
		return ""
	}
	texts := make([]string, len(t.Spec.Containers))
	for i := range t.Spec.Containers {
		texts[i] = field(&t.Spec.Containers[i])
	}
	return strings.Join(texts, ",")
}

func selector(o schema.Object) string {
	var s *metav1.LabelSelector
	switch w := o.(type) {
	case *corev1.ReplicationController:
		return labelText(w.Spec.Selector)
	case *corev1.Service:
		return labelText(w.Spec.Selector)
	case *appsv1.Deployment:
		s = w.Spec.Selector
	case *appsv1.ReplicaSet:
		s = w.Spec.Selector
	case *appsv1.StatefulSet:
		s = w.Spec.Selector
	case *appsv1.DaemonSet:
		s = w.Spec.Selector
	case *batchv1.Job:
		s = w.Spec.Selector
	case *batchv1.CronJob:
		s = w.Spec.JobTemplate.Spec.Selector
	case *networkingv1.NetworkPolicy:
		s = &w.Spec.PodSelector
	}
	return metav1.FormatLabelSelector(s)
}

func readyReplicas(o schema.Object) string {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return fmt.Sprintf("%d/%d", w.Status.ReadyReplicas, deref(w.Spec.Replicas, 1))
	case *appsv1.StatefulSet:
		return fmt.Sprintf("%d/%d", w.Status.ReadyReplicas, deref(w.Spec.Replicas, 1))
	}
	return ""
}

func jobStatus(j *batchv1.Job) string {
	has := map[batchv1.JobConditionType]bool{}
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			has[c.Type] = true
		}
	}
	switch {
	case has[batchv1.JobComplete]:
		return "Complete"
	case has[batchv1.JobFailed]:
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case has[batchv1.JobSuspended]:
		return "Suspended"
	case has[batchv1.JobFailureTarget]:
		return "FailureTarget"
	case has[batchv1.JobSuccessCriteriaMet]:
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func jobCompletions(j *batchv1.Job) string {
	if j.Spec.Completions != nil {
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	}
	if p := deref(j.Spec.Parallelism, 0); p > 1 {
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, p)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

func jobDuration(r *Row, j *batchv1.Job) string {
	switch {
	case j.Status.StartTime == nil:
		return ""
	case j.Status.CompletionTime == nil:
		return duration.HumanDuration(r.Now.Sub(j.Status.StartTime.Time))
	}
	return duration.HumanDuration(j.Status.CompletionTime.Sub(j.Status.StartTime.Time))
}

func cronJobSuspend(c *batchv1.CronJob) string {
	switch {
	case c.Spec.Suspend == nil:
		return unset
	case *c.Spec.Suspend:
		return "True"
	}
	return "False"
}
