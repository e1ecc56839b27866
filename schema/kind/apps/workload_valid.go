package apps

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// TemplateErrors checks the template of pods.
func TemplateErrors(t *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	return core.TemplateErrors(t, at)
}

// foreverErrors checks what is different for pods that have no end.
func foreverErrors(t *corev1.PodTemplateSpec, kind string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	at = at.Child("spec")
	if p := t.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// NoMatch is said of a template whose pods the selector does not select.
const NoMatch = "`selector` does not match template `labels`"

// selectorErrors checks the selector of a workload.
func selectorErrors(s *metav1.LabelSelector, kind string, at *field.Path) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := valid.LabelSelector(s, at)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(at, s, "empty selector is invalid for "+kind))
	}
	return errs
}

// replicasErrors checks selector and template of deployments and replica sets.
func replicasErrors(s *metav1.LabelSelector, t *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := selectorErrors(s, "deployment", at.Child("selector"))
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return append(errs, field.Invalid(at.Child("selector"), s, "invalid label selector"))
	}
	at = at.Child("template")
	if !sel.Empty() && !sel.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), t.Labels, NoMatch))
	}
	errs = append(errs, TemplateErrors(t, at)...)
	return append(errs, foreverErrors(t, "ReplicaSet", at)...)
}

func deploymentErrors(s *appsv1.DeploymentSpec) field.ErrorList {
	at := field.NewPath("spec")
	errs := valid.NonNegativeIf(s.Replicas, at.Child("replicas"))
	errs = append(errs, replicasErrors(s.Selector, &s.Template, at)...)
	errs = append(errs, deploymentStrategyErrors(&s.Strategy, at.Child("strategy"))...)
	errs = append(errs, valid.NonNegative(s.MinReadySeconds, at.Child("minReadySeconds"))...)
	errs = append(errs, valid.NonNegativeIf(s.RevisionHistoryLimit, at.Child("revisionHistoryLimit"))...)
	if p := s.ProgressDeadlineSeconds; p != nil {
		errs = append(errs, valid.NonNegative(*p, at.Child("progressDeadlineSeconds"))...)
		if *p <= s.MinReadySeconds {
			errs = append(errs, field.Invalid(at.Child("progressDeadlineSeconds"), p, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

func deploymentStrategyErrors(s *appsv1.DeploymentStrategy, at *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(at.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
	default:
		return field.ErrorList{field.NotSupported(at, internalStrategy(string(s.Type), deploymentRolling(s.RollingUpdate)), []string{"Recreate", "RollingUpdate"})}
	}
	at = at.Child("rollingUpdate")
	if s.RollingUpdate == nil {
		return field.ErrorList{field.Required(at, "this should be defaulted and never be nil")}
	}
	unavailable, surge := valid.Deref(s.RollingUpdate.MaxUnavailable), valid.Deref(s.RollingUpdate.MaxSurge)
	errs := valid.Portion(unavailable, at.Child("maxUnavailable"))
	errs = append(errs, valid.Portion(surge, at.Child("maxSurge"))...)
	if shareOf(unavailable) == 0 && shareOf(surge) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, valid.AtMostAll(unavailable, at.Child("maxUnavailable"))...)
}

// internalStrategy is how upstream's texts show a strategy: by the names that its
// fields have in Go.
func internalStrategy(kind string, rolling any) any {
	return struct {
		Type          string
		RollingUpdate any
	}{kind, rolling}
}

type rollingShape struct{ MaxUnavailable, MaxSurge intstr.IntOrString }

func deploymentRolling(r *appsv1.RollingUpdateDeployment) *rollingShape {
	if r == nil {
		return nil
	}
	return &rollingShape{valid.Deref(r.MaxUnavailable), valid.Deref(r.MaxSurge)}
}

func daemonSetRolling(r *appsv1.RollingUpdateDaemonSet) *rollingShape {
	if r == nil {
		return nil
	}
	return &rollingShape{valid.Deref(r.MaxUnavailable), valid.Deref(r.MaxSurge)}
}

func replicaSetErrors(s *appsv1.ReplicaSetSpec) field.ErrorList {
	at := field.NewPath("spec")
	errs := valid.NonNegativeIf(s.Replicas, at.Child("replicas"))
	errs = append(errs, valid.NonNegative(s.MinReadySeconds, at.Child("minReadySeconds"))...)
	return append(errs, replicasErrors(s.Selector, &s.Template, at)...)
}

func daemonSetErrors(s *appsv1.DaemonSetSpec) field.ErrorList {
	at := field.NewPath("spec")
	template := at.Child("template")
	errs := valid.LabelSelector(s.Selector, at.Child("selector"))
	if sel, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !sel.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(template.Child("metadata", "labels"), s.Template.Labels, NoMatch))
	}
	if s.Selector != nil && len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(at.Child("selector"), s.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, TemplateErrors(&s.Template, template)...)
	errs = append(errs, foreverErrors(&s.Template, "DaemonSet", template)...)
	errs = append(errs, valid.NonNegative(s.MinReadySeconds, at.Child("minReadySeconds"))...)
	errs = append(errs, daemonSetStrategyErrors(&s.UpdateStrategy, at.Child("updateStrategy"))...)
	return append(errs, valid.NonNegativeIf(s.RevisionHistoryLimit, at.Child("revisionHistoryLimit"))...)
}

func daemonSetStrategyErrors(s *appsv1.DaemonSetUpdateStrategy, at *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
	default:
		return field.ErrorList{field.NotSupported(at, internalStrategy(string(s.Type), daemonSetRolling(s.RollingUpdate)), []string{"RollingUpdate", "OnDelete"})}
	}
	at = at.Child("rollingUpdate")
	if s.RollingUpdate == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	unavailable, surge := valid.Deref(s.RollingUpdate.MaxUnavailable), valid.Deref(s.RollingUpdate.MaxSurge)
	errs := valid.Portion(unavailable, at.Child("maxUnavailable"))
	errs = append(errs, valid.Portion(surge, at.Child("maxSurge"))...)
	errs = append(errs, valid.AtMostAll(unavailable, at.Child("maxUnavailable"))...)
	errs = append(errs, valid.AtMostAll(surge, at.Child("maxSurge"))...)
	switch a, b := shareOf(unavailable) != 0, shareOf(surge) != 0; {
	case a && b:
		errs = append(errs, field.Invalid(at.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case !a && !b:
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func replicationErrors(s *corev1.ReplicationControllerSpec) field.ErrorList {
	at := field.NewPath("spec")
	errs := valid.NonNegative(s.MinReadySeconds, at.Child("minReadySeconds"))
	if len(s.Selector) == 0 {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	}
	if s.Replicas == nil {
		errs = append(errs, field.Required(at.Child("replicas"), ""))
	} else {
		errs = append(errs, valid.NonNegative(*s.Replicas, at.Child("replicas"))...)
	}
	at = at.Child("template")
	if s.Template == nil {
		return append(errs, field.Required(at, ""))
	}
	if !labels.SelectorFromSet(s.Selector).Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), s.Template.Labels, NoMatch))
	}
	errs = append(errs, TemplateErrors(s.Template, at)...)
	return append(errs, foreverErrors(s.Template, "ReplicationController", at)...)
}

func revisionErrors(r *appsv1.ControllerRevision) field.ErrorList {
	errs := valid.NonNegative(r.Revision, field.NewPath("revision"))
	at := field.NewPath("data")
	var v any
	if r.Data.Raw == nil {
		return append(errs, field.Required(at, "data is mandatory"))
	}
	if err := json.Unmarshal(r.Data.Raw, &v); err != nil {
		return append(errs, field.Invalid(at, "<value omitted>", fmt.Sprintf("error parsing data: %v", err)))
	}
	if v == nil {
		return append(errs, field.Required(at, "data is mandatory"))
	}
	if _, ok := v.(map[string]any); !ok {
		return append(errs, field.Required(at, "data must be a valid JSON object"))
	}
	return errs
}

func shareOf(v intstr.IntOrString) int {
	if n, ok := valid.Percent(v); ok {
		return n
	}
	return v.IntValue()
}
