// Package podsecurity holds pods against the Pod Security Standards that their
// namespace is labelled with: the plugin PodSecurity.
//
// It watches nothing and owns nothing. schema/podstandard judges; what is said
// to whom, refused or warned of, is here, with upstream's texts.
package podsecurity

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/support"
)

// Plugin is the plugin PodSecurity.
type Plugin struct{ judge *podstandard.Judge }

var _ registry.Admission = (*Plugin)(nil)

// auditPrefix begins the audit annotations of the plugin.
const auditPrefix = "pod-security.kubernetes.io/"

// New returns the plugin.
func New(cfg podstandard.Config) (*Plugin, error) {
	j, err := podstandard.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Plugin{j}, nil
}

// Handles implements registry.Handler.
func (*Plugin) Handles(verb string, r *schema.Resource, sub string) bool {
	if verb != "create" && verb != "update" {
		return false
	}
	if r.Group == "" && r.Plural == "pods" {
		switch sub { // of the others none can change what is checked
		case "", "ephemeralcontainers", "resize":
			return true
		}
		return false
	}
	if sub != "" {
		return false
	}
	switch r.Group {
	case "":
		return r.Plural == "namespaces" || r.Plural == "replicationcontrollers" || r.Plural == "podtemplates"
	case "apps":
		return r.Plural != "controllerrevisions"
	case "batch":
		return true
	}
	return false
}

// Mutate implements registry.Admission.
func (*Plugin) Mutate(context.Context, *registry.Attributes) error { return nil }

// Validate implements registry.Admission.
func (p *Plugin) Validate(ctx context.Context, a *registry.Attributes) error {
	switch o := a.Object.(type) {
	case *corev1.Namespace:
		return p.namespace(ctx, a, o)
	case *corev1.Pod:
		if old, ok := a.Old.(*corev1.Pod); ok && !significant(o, old) {
			return nil
		}
		return p.pod(ctx, a, &o.ObjectMeta, &o.Spec, true)
	}
	if t, _ := support.TemplateOf(a.Object); t != nil {
		return p.pod(ctx, a, &t.ObjectMeta, &t.Spec, false)
	}
	return nil
}

// pod checks a pod, or the template of what makes pods: that is not refused,
// because what counts is the pod.
func (p *Plugin) pod(ctx context.Context, a *registry.Attributes, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	switch {
	case p.judge.ExemptNamespace(a.Key.Namespace):
		audit.AddAuditAnnotation(ctx, auditPrefix+api.ExemptionReasonAnnotationKey, "namespace")
		return nil
	case a.User != nil && p.judge.ExemptUser(a.User.GetName()):
		audit.AddAuditAnnotation(ctx, auditPrefix+api.ExemptionReasonAnnotationKey, "user")
		return nil
	}
	ns, ok := client.Cached[*corev1.Namespace](a.Cluster, schema.Key{Name: a.Key.Namespace})
	if !ok {
		if !enforce {
			return nil
		}
		return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", a.Key.Namespace))
	}
	want, bad := p.judge.Policy(ns.Labels)
	if len(bad) == 0 && (want.FullyPrivileged() || !enforce && want.Warn.Level == api.LevelPrivileged && want.Audit.Level == api.LevelPrivileged) {
		return nil
	}
	if p.judge.ExemptRuntime(spec.RuntimeClassName) {
		audit.AddAuditAnnotation(ctx, auditPrefix+api.ExemptionReasonAnnotationKey, "runtimeClass")
		return nil
	}
	if err := bad.ToAggregate(); err != nil {
		audit.AddAuditAnnotation(ctx, auditPrefix+"error", fmt.Sprintf("Failed to parse policy: %v", err))
	}
	return p.modes(ctx, a, want, meta, spec, enforce)
}

// modes runs the checks of the three modes, the same level and version once.
func (p *Plugin) modes(ctx context.Context, a *registry.Attributes, want api.Policy, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	results := map[api.LevelVersion]policy.AggregateCheckResult{}
	check := func(lv api.LevelVersion) policy.AggregateCheckResult {
		r, ok := results[lv]
		if !ok {
			r = p.judge.Evaluate(lv, meta, spec)
			results[lv] = r
		}
		return r
	}
	var refused error
	if enforce {
		audit.AddAuditAnnotation(ctx, auditPrefix+api.EnforcedPolicyAnnotationKey, want.Enforce.String())
		if r := check(want.Enforce); !r.Allowed {
			refused = apierrors.NewForbidden(a.Resource.GroupResource(), nameOf(a), fmt.Errorf("violates PodSecurity %q: %s", want.Enforce.String(), r.ForbiddenDetail()))
		}
	}
	if r := check(want.Audit); !r.Allowed {
		audit.AddAuditAnnotation(ctx, auditPrefix+api.AuditViolationsAnnotationKey, fmt.Sprintf("would violate PodSecurity %q: %s", want.Audit.String(), r.ForbiddenDetail()))
	}
	if refused != nil {
		return refused
	}
	if r := check(want.Warn); !r.Allowed {
		warning.AddWarning(ctx, "", fmt.Sprintf("would violate PodSecurity %q: %s", want.Warn.String(), r.ForbiddenDetail()))
	}
	return nil
}

func nameOf(a *registry.Attributes) string {
	if n := a.Object.GetName(); n != "" {
		return n
	}
	return a.Object.GetGenerateName()
}

const (
	// maxPods is how many pods of a namespace are checked against its new level.
	maxPods = 3000
	maxTime = time.Second
)
