package table

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/schema"
)

// Columns of quotas, permissions and autoscaling.
var _ = register(map[string]func(*Row) any{
	"quotaRequests": func(r *Row) any { return quota(r.Object.(*corev1.ResourceQuota), false) },
	"quotaLimits":   func(r *Row) any { return quota(r.Object.(*corev1.ResourceQuota), true) },

	"roleRef":                func(r *Row) any { return roleRef(r.Object) },
	"subjectUsers":           func(r *Row) any { return subjects(r.Object, rbacv1.UserKind) },
	"subjectGroups":          func(r *Row) any { return subjects(r.Object, rbacv1.GroupKind) },
	"subjectServiceAccounts": func(r *Row) any { return subjects(r.Object, rbacv1.ServiceAccountKind) },

	"scaleTarget": func(r *Row) any {
		ref := r.Object.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
		return ref.Kind + "/" + ref.Name
	},
	"hpaTargets": func(r *Row) any { return hpaTargets(r.Object.(*autoscalingv2.HorizontalPodAutoscaler)) },
})

// quota prints used and hard of limits.*, or of everything else.
func quota(q *corev1.ResourceQuota, limits bool) string {
	names := make([]string, 0, len(q.Status.Hard))
	for name := range q.Status.Hard {
		if strings.HasPrefix(string(name), "limits.") == limits {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	for i, name := range names {
		used, hard := q.Status.Used[corev1.ResourceName(name)], q.Status.Hard[corev1.ResourceName(name)]
		names[i] = fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
	}
	return strings.Join(names, ", ")
}

func roleRef(o schema.Object) string {
	switch b := o.(type) {
	case *rbacv1.RoleBinding:
		return b.RoleRef.Kind + "/" + b.RoleRef.Name
	case *rbacv1.ClusterRoleBinding:
		return b.RoleRef.Kind + "/" + b.RoleRef.Name
	}
	return ""
}

func subjects(o schema.Object, kind string) string {
	var all []rbacv1.Subject
	switch b := o.(type) {
	case *rbacv1.RoleBinding:
		all = b.Subjects
	case *rbacv1.ClusterRoleBinding:
		all = b.Subjects
	}
	var names []string
	for _, s := range all {
		switch {
		case s.Kind != kind:
		case kind == rbacv1.ServiceAccountKind:
			names = append(names, s.Namespace+"/"+s.Name)
		default:
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// hpaTargets prints the current and the wanted value of each metric.
func hpaTargets(h *autoscalingv2.HorizontalPodAutoscaler) string {
	if len(h.Spec.Metrics) == 0 {
		return none
	}
	texts := make([]string, len(h.Spec.Metrics))
	for i := range h.Spec.Metrics {
		var now autoscalingv2.MetricStatus
		if i < len(h.Status.CurrentMetrics) {
			now = h.Status.CurrentMetrics[i]
		}
		texts[i] = hpaTarget(&h.Spec.Metrics[i], &now)
	}
	return limited(texts, 2, ", ")
}

func hpaTarget(m *autoscalingv2.MetricSpec, now *autoscalingv2.MetricStatus) string {
	switch m.Type {
	case autoscalingv2.ExternalMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if now.External != nil {
			current = &now.External.Current
		}
		return metricValue(m.External.Target, current)
	case autoscalingv2.ObjectMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if now.Object != nil {
			current = &now.Object.Current
		}
		return metricValue(m.Object.Target, current)
	case autoscalingv2.PodsMetricSourceType:
		current := unknown
		if now.Pods != nil {
			current = quantity(now.Pods.Current.AverageValue)
		}
		return current + "/" + quantity(m.Pods.Target.AverageValue)
	case autoscalingv2.ResourceMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if now.Resource != nil {
			current = &now.Resource.Current
		}
		return string(m.Resource.Name) + ": " + resourceValue(m.Resource.Target, current)
	case autoscalingv2.ContainerResourceMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if now.ContainerResource != nil {
			current = &now.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + resourceValue(m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

func metricValue(want autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current := unknown
	if want.AverageValue != nil {
		if now != nil && now.AverageValue != nil {
			current = now.AverageValue.String()
		}
		return current + "/" + want.AverageValue.String() + " (avg)"
	}
	if now != nil {
		current = quantity(now.Value)
	}
	return current + "/" + quantity(want.Value)
}

func resourceValue(want autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current := unknown
	if want.AverageValue != nil {
		if now != nil {
			current = quantity(now.AverageValue)
		}
		return current + "/" + want.AverageValue.String()
	}
	if now != nil && now.AverageUtilization != nil {
		current = fmt.Sprintf("%d%%", *now.AverageUtilization)
	}
	target := "<auto>"
	if want.AverageUtilization != nil {
		target = fmt.Sprintf("%d%%", *want.AverageUtilization)
	}
	return current + "/" + target
}

func quantity(q *resource.Quantity) string {
	if q == nil {
		return unknown
	}
	return q.String()
}
