package apps

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// statefulSetErrors is what upstream has against a stateful set, in its order.
// What cannot be changed is checked once, when the set is new.
func statefulSetErrors(s *appsv1.StatefulSetSpec, isNew bool) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	switch s.PodManagementPolicy {
	case "":
		errs = append(errs, field.Required(at.Child("podManagementPolicy"), ""))
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(at.Child("podManagementPolicy"), s.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, statefulSetStrategyErrors(&s.UpdateStrategy, at.Child("updateStrategy"))...)
	if p := s.PersistentVolumeClaimRetentionPolicy; p != nil {
		at := at.Child("persistentVolumeClaimRetentionPolicy")
		errs = append(errs, valid.OneOf(&p.WhenDeleted, at.Child("whenDeleted"), "Retain", "Delete")...)
		errs = append(errs, valid.OneOf(&p.WhenScaled, at.Child("whenScaled"), "Retain", "Delete")...)
	}
	errs = append(errs, valid.NonNegativeIf(s.Replicas, at.Child("replicas"))...)
	errs = append(errs, valid.NonNegative(s.MinReadySeconds, at.Child("minReadySeconds"))...)
	if s.Ordinals != nil {
		errs = append(errs, valid.NonNegative(s.Ordinals.Start, at.Child("ordinals.start"))...)
	}
	if isNew && s.ServiceName != "" {
		errs = append(errs, valid.InvalidAll(at.Child("serviceName"), s.ServiceName, utilvalidation.IsDNS1123Label(s.ServiceName))...)
	}
	errs = append(errs, selectorErrors(s.Selector, "statefulset", at.Child("selector"))...)
	template := at.Child("template")
	sel, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), s.Selector, ""))
	} else {
		t := podsOfSet(s)
		if !sel.Empty() && !sel.Matches(labels.Set(t.Labels)) {
			errs = append(errs, field.Invalid(template.Child("metadata", "labels"), t.Labels, NoMatch))
		}
		errs = append(errs, TemplateErrors(t, template)...)
	}
	return append(errs, foreverErrors(&s.Template, "StatefulSet", template)...)
}

// podsOfSet is the template with what the controller adds to it: the volumes of
// the claim templates, in the place of those that are named like them.
func podsOfSet(s *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	if len(s.VolumeClaimTemplates) == 0 && s.Template.Spec.Subdomain == "" && s.Template.Spec.Hostname == "" {
		return &s.Template
	}
	t := s.Template
	t.Spec.Subdomain, t.Spec.Hostname = "", ""
	claimed := map[string]corev1.Volume{}
	for i := range s.VolumeClaimTemplates {
		name := s.VolumeClaimTemplates[i].Name
		claimed[name] = corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}
	}
	var volumes []corev1.Volume
	for _, name := range slices.Sorted(maps.Keys(claimed)) {
		volumes = append(volumes, claimed[name])
	}
	for _, v := range t.Spec.Volumes {
		if _, ok := claimed[v.Name]; !ok {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	return &t
}

func statefulSetStrategyErrors(s *appsv1.StatefulSetUpdateStrategy, at *field.Path) field.ErrorList {
	rolling := at.Child("rollingUpdate")
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(at, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(rolling, internalRolling(s.RollingUpdate), "only allowed for updateStrategy 'RollingUpdate'")}
		}
		return nil
	case appsv1.RollingUpdateStatefulSetStrategyType:
	default:
		return field.ErrorList{field.Invalid(at, internalStrategy(string(s.Type), internalRolling(s.RollingUpdate)), "must be 'RollingUpdate' or 'OnDelete'")}
	}
	if s.RollingUpdate == nil {
		return nil
	}
	errs := valid.NonNegativeIf(s.RollingUpdate.Partition, rolling.Child("partition"))
	if n := s.RollingUpdate.MaxUnavailable; n != nil {
		at := rolling.Child("maxUnavailable")
		errs = append(errs, valid.Portion(*n, at)...)
		if shareOf(*n) == 0 {
			errs = append(errs, field.Invalid(at, *n, "cannot be 0"))
		}
		errs = append(errs, valid.AtMostAll(*n, at)...)
	}
	return errs
}

// internalRolling is how upstream's texts show a rolling update.
func internalRolling(r *appsv1.RollingUpdateStatefulSetStrategy) any {
	if r == nil {
		return nil
	}
	return struct {
		Partition      int32
		MaxUnavailable any
	}{valid.Deref(r.Partition), r.MaxUnavailable}
}

// statefulSetWarnings: of claims every update is warned of, by a path of its own.
func statefulSetWarnings(o, old schema.Object) []string {
	s, at := &o.(*appsv1.StatefulSet).Spec, field.NewPath("spec", "volumeClaimTemplates")
	texts := core.Changed(func(schema.Object) []string { return core.TemplateWarnings(&s.Template, core.TemplatePath) })(o, old)
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
