package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/writ-os/writ/controlplane/admission/match"
	"github.com/writ-os/writ/controlplane/admission/source"
	"github.com/writ-os/writ/controlplane/client"
)

// defaultTimeout is that of a webhook that names none.
const defaultTimeout = 10 * time.Second

// hook is one webhook of a configuration, of either sort.
type hook struct {
	// id names it over all configurations: "<configuration>/<name>/<n>", the
	// n-th of that name in it.
	id            string
	configuration string
	admissionv1.ValidatingWebhook
	// reinvoke: it wants to see what later webhooks have changed.
	reinvoke bool
	timeout  time.Duration
	kind     string // "admit" or "validating", as metrics and matchers name it

	criteria *match.Criteria
	matcher  func() matchconditions.Matcher // nil without conditions
}

func (h *hook) ignoresFailure() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionv1.Ignore
}

// sideEffectFree says whether a dry run may call it.
func (h *hook) sideEffectFree() bool {
	return h.SideEffects != nil && (*h.SideEffects == admissionv1.SideEffectClassNone || *h.SideEffects == admissionv1.SideEffectClassNoneOnDryRun)
}

func newHook(configuration string, n int, kind string, w admissionv1.ValidatingWebhook) *hook {
	h := &hook{
		id: fmt.Sprintf("%s/%s/%d", configuration, w.Name, n), configuration: configuration, ValidatingWebhook: w, kind: kind,
		timeout:  defaultTimeout,
		criteria: match.ForWebhook(w.Rules, w.MatchPolicy, w.NamespaceSelector, w.ObjectSelector),
	}
	if w.TimeoutSeconds != nil {
		h.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	if len(w.MatchConditions) > 0 {
		h.matcher = sync.OnceValue(func() matchconditions.Matcher { return conditions(h) })
	}
	return h
}

// conditions compiles match conditions. Only a webhook whose rules match pays
// for it, once.
func conditions(h *hook) matchconditions.Matcher {
	list := make([]celplugin.ExpressionAccessor, len(h.MatchConditions))
	for i := range h.MatchConditions {
		list[i] = (*matchconditions.MatchCondition)(&h.MatchConditions[i])
	}
	compiler := celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	filter := compiler.CompileCondition(list, celplugin.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	return matchconditions.NewMatcher(filter, h.FailurePolicy, "webhook", h.kind, h.Name)
}

// cached keeps the hooks of configurations that have not changed.
type cached struct {
	version string
	hooks   []*hook
}

// validatingHooks reads all validating webhooks, in the order in which they
// are asked: by the name of their configuration.
func validatingHooks(kept map[string]cached) func(client.Cache) []*hook {
	return func(c client.Cache) []*hook {
		list := source.Objects[*admissionv1.ValidatingWebhookConfiguration](c, validatingKind)
		return collect(kept, list, func(o *admissionv1.ValidatingWebhookConfiguration) []*hook {
			out, seen := make([]*hook, len(o.Webhooks)), map[string]int{}
			for i, w := range o.Webhooks {
				out[i] = newHook(o.Name, seen[w.Name], "validating", *w.DeepCopy())
				seen[w.Name]++
			}
			return out
		})
	}
}

// mutatingHooks reads all mutating webhooks.
func mutatingHooks(kept map[string]cached) func(client.Cache) []*hook {
	return func(c client.Cache) []*hook {
		list := source.Objects[*admissionv1.MutatingWebhookConfiguration](c, mutatingKind)
		return collect(kept, list, func(o *admissionv1.MutatingWebhookConfiguration) []*hook {
			out, seen := make([]*hook, len(o.Webhooks)), map[string]int{}
			for i, w := range o.Webhooks {
				out[i] = newHook(o.Name, seen[w.Name], "admit", plain(w.DeepCopy()))
				out[i].reinvoke = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy
				seen[w.Name]++
			}
			return out
		})
	}
}

// plain is what a mutating webhook has in common with a validating one, which
// is all but its reinvocation policy.
func plain(w *admissionv1.MutatingWebhook) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
		TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
	}
}

type configuration interface {
	GetName() string
	GetResourceVersion() string
}

func collect[T configuration](kept map[string]cached, list []T, read func(T) []*hook) []*hook {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	var out []*hook
	names := map[string]bool{}
	for _, o := range list {
		names[o.GetName()] = true
		k := kept[o.GetName()]
		if k.version != o.GetResourceVersion() || k.version == "" {
			k = cached{o.GetResourceVersion(), read(o)}
			kept[o.GetName()] = k
		}
		out = append(out, k.hooks...)
	}
	for name := range kept {
		if !names[name] {
			delete(kept, name)
		}
	}
	return out
}
