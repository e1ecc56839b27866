package podsecurity

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/pod-security-admission/api"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
)

// namespace checks the labels of a namespace, and warns of pods in it that a
// stricter level would not have let in.
func (p *Plugin) namespace(ctx context.Context, a *registry.Attributes, ns *corev1.Namespace) error {
	want, bad := p.judge.Policy(ns.Labels)
	exempt := p.judge.ExemptNamespace(ns.Name)
	old, ok := a.Old.(*corev1.Namespace)
	if !ok {
		if len(bad) > 0 {
			return invalid(ns, bad)
		}
		if exempt {
			p.warnExempt(ctx, ns, want)
		}
		return nil
	}
	was, oldBad := p.judge.Policy(old.Labels)
	if len(bad) > 0 && (len(oldBad) == 0 || !reflect.DeepEqual(bad, oldBad)) {
		return invalid(ns, bad)
	}
	relaxed := want.Enforce.Version == was.Enforce.Version && api.CompareLevels(want.Enforce.Level, was.Enforce.Level) < 1
	switch {
	case want.Enforce == was.Enforce, want.Enforce.Level == api.LevelPrivileged, relaxed:
	case exempt:
		p.warnExempt(ctx, ns, want)
	default:
		p.warnPods(ctx, a, ns.Name, want.Enforce)
	}
	return nil
}

func invalid(ns *corev1.Namespace, errs field.ErrorList) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(), ns.Name, errs)
}

// warnExempt says that labels have no effect here.
func (p *Plugin) warnExempt(ctx context.Context, ns *corev1.Namespace, want api.Policy) {
	defaults := p.judge.Defaults()
	if want.FullyPrivileged() || want.Equivalent(&defaults) {
		return
	}
	var parts []string
	for _, m := range []struct {
		name, level, version string
		is                   api.LevelVersion
	}{
		{"enforce", api.EnforceLevelLabel, api.EnforceVersionLabel, want.Enforce},
		{"audit", api.AuditLevelLabel, api.AuditVersionLabel, want.Audit},
		{"warn", api.WarnLevelLabel, api.WarnVersionLabel, want.Warn},
	} {
		_, level := ns.Labels[m.level]
		_, version := ns.Labels[m.version]
		if m.is.Level != api.LevelPrivileged && (level || version) {
			parts = append(parts, m.name+"="+m.is.String())
		}
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", ns.Name, strings.Join(parts, ", ")))
}

// warnPods names the pods that violate a new level: one line for each reason.
func (p *Plugin) warnPods(ctx context.Context, a *registry.Attributes, namespace string, level api.LevelVersion) {
	pods := p.prioritized(client.CachedList[*corev1.Pod](a.Cluster, namespace))
	total, end := len(pods), time.Now().Add(maxTime)
	pods = pods[:min(total, maxPods)]
	first, count := map[string]string{}, map[string]int{}
	checked := 0
	for _, pod := range pods {
		r := p.judge.Evaluate(level, &pod.ObjectMeta, &pod.Spec)
		checked++
		if !r.Allowed {
			why := r.ForbiddenReason()
			if have, ok := first[why]; !ok || pod.Name < have {
				first[why] = pod.Name
			}
			count[why]++
		}
		if ctx.Err() != nil || time.Now().After(end) {
			break
		}
	}
	if checked < total {
		warning.AddWarning(ctx, "", fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, total))
	}
	if len(first) > 0 {
		warning.AddWarning(ctx, "", fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, level.String()))
	}
	var lines []string
	for why, name := range first {
		switch n := count[why]; n {
		case 1:
			lines = append(lines, fmt.Sprintf("%s: %s", name, why))
		case 2:
			lines = append(lines, fmt.Sprintf("%s (and 1 other pod): %s", name, why))
		default:
			lines = append(lines, fmt.Sprintf("%s (and %d other pods): %s", name, n-1, why))
		}
	}
	slices.Sort(lines)
	for _, l := range lines {
		warning.AddWarning(ctx, "", l)
	}
}

// prioritized puts the second and later pods of a controller last: they are
// all alike.
func (p *Plugin) prioritized(pods []*corev1.Pod) []*corev1.Pod {
	var once, again []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		if p.judge.ExemptRuntime(pod.Spec.RuntimeClassName) {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner != nil && seen[owner.UID] {
			again = append(again, pod)
			continue
		}
		if owner != nil {
			seen[owner.UID] = true
		}
		once = append(once, pod)
	}
	return append(once, again...)
}
