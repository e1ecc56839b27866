package registry

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/core"
)

// warningRules adds to the rules of pods, and of all that make some, what their
// clients are warned of. It comes after those rules.
func warningRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Pod]()].warnings = func(o, old schema.Object) []string {
		if old != nil { // upstream: people hardly ever update pods, and others do so all the time
			return nil
		}
		return append(nameWarnings(o, "the Pod's hostname"), core.PodWarnings(o.(*corev1.Pod))...)
	}
	rules[schema.ResourceFor[*corev1.PodTemplate]()].warnings = changed(func(o schema.Object) []string {
		return core.TemplateWarnings(&o.(*corev1.PodTemplate).Template, field.NewPath("template"))
	})
	rules[schema.ResourceFor[*corev1.PersistentVolumeClaim]()].warnings = func(o, _ schema.Object) []string {
		return core.ClaimWarnings(&o.(*corev1.PersistentVolumeClaim).Spec, field.NewPath("spec"))
	}
	template := func(r *schema.Resource, named bool, of func(schema.Object) *corev1.PodTemplateSpec) {
		update := changed(func(o schema.Object) []string { return core.TemplateWarnings(of(o), templatePath) })
		rules[r].warnings = func(o, old schema.Object) []string {
			texts := update(o, old)
			if old == nil && named {
				texts = append(nameWarnings(o, "Pod names and hostnames"), texts...)
			}
			return texts
		}
	}
	template(schema.ResourceFor[*appsv1.Deployment](), true, func(o schema.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template })
	template(schema.ResourceFor[*appsv1.ReplicaSet](), true, func(o schema.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.ReplicaSet).Spec.Template })
	template(schema.ResourceFor[*appsv1.DaemonSet](), false, func(o schema.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.DaemonSet).Spec.Template })
	template(schema.ResourceFor[*corev1.ReplicationController](), true, func(o schema.Object) *corev1.PodTemplateSpec {
		if t := o.(*corev1.ReplicationController).Spec.Template; t != nil {
			return t
		}
		return &corev1.PodTemplateSpec{}
	})
	rules[schema.ResourceFor[*appsv1.StatefulSet]()].warnings = statefulSetWarnings
	rules[schema.ResourceFor[*batchv1.Job]()].warnings = func(o, old schema.Object) []string {
		return jobWarnings(o, old, &o.(*batchv1.Job).Spec, field.NewPath("spec"))
	}
	rules[schema.ResourceFor[*batchv1.CronJob]()].warnings = func(o, old schema.Object) []string {
		s := &o.(*batchv1.CronJob).Spec
		texts := jobWarnings(o, old, &s.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
		if old != nil && strings.Contains(s.Schedule, "TZ") {
			texts = append(texts, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
		}
		return texts
	}
}

var templatePath = field.NewPath("spec", "template")

// changed warns of new objects, and of updates that count as a change.
func changed(texts func(schema.Object) []string) func(o, old schema.Object) []string {
	return func(o, old schema.Object) []string {
		if old != nil && o.GetGeneration() == old.GetGeneration() {
			return nil
		}
		return texts(o)
	}
}

// statefulSetWarnings: of claims every update is warned of, by a path of its own.
func statefulSetWarnings(o, old schema.Object) []string {
	s, at := &o.(*appsv1.StatefulSet).Spec, field.NewPath("spec", "volumeClaimTemplates")
	texts := changed(func(schema.Object) []string { return core.TemplateWarnings(&s.Template, templatePath) })(o, old)
	for i := range s.VolumeClaimTemplates {
		at := at.Index(i)
		if old != nil {
			at = at.Child("Spec")
		}
		texts = append(texts, core.ClaimWarnings(&s.VolumeClaimTemplates[i].Spec, at)...)
	}
	if n := s.RevisionHistoryLimit; n != nil && *n < 0 {
		texts = append(texts, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return texts
}

// jobWarnings are those of a Job, or of the Jobs that o makes.
func jobWarnings(o, old schema.Object, s *batchv1.JobSpec, at *field.Path) []string {
	if old != nil && o.GetGeneration() == old.GetGeneration() {
		return nil
	}
	var texts []string
	if old == nil {
		texts = nameWarnings(o, "Pod names and hostnames")
	}
	if deref(s.CompletionMode) == batchv1.IndexedCompletion && deref(s.Completions) > 100_000 && deref(s.Parallelism) > 10_000 {
		texts = append(texts, at.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(texts, core.TemplateWarnings(&s.Template, at.Child("template"))...)
}

// nameWarnings: pods are named after it, and their hosts after them.
func nameWarnings(o schema.Object, in string) []string {
	if texts := validation.IsDNS1123Label(o.GetName()); len(texts) > 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", in, texts)}
	}
	return nil
}
