// Package match decides whether a write is one that a webhook or a policy is
// about: rules, selectors, and equivalent versions.
//
// It watches nothing and owns nothing. Texts and order are upstream's: a
// selector that does not match wins over an error in the other, and errors
// count only for writes that the rules are about.
package match

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Criteria is what a write must be like. Selectors are parsed once.
type Criteria struct {
	// Rules of which one must match; none matches all where All is set.
	Rules   []admissionv1.NamedRuleWithOperations
	Exclude []admissionv1.NamedRuleWithOperations
	All     bool
	// Equivalent also matches rules for other versions of the same kind.
	Equivalent bool

	namespace, object       labels.Selector
	namespaceErr, objectErr error
}

// ForWebhook returns the criteria of a webhook.
func ForWebhook(list []admissionv1.RuleWithOperations, policy *admissionv1.MatchPolicyType, namespace, object *metav1.LabelSelector) *Criteria {
	c := &Criteria{Equivalent: policy != nil && *policy == admissionv1.Equivalent}
	for _, r := range list {
		c.Rules = append(c.Rules, admissionv1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	c.selectors(namespace, object)
	return c
}

// ForPolicy returns the criteria of a policy or a binding. Everything matches
// where there are no rules, as with bindings.
func ForPolicy(m *admissionv1.MatchResources) *Criteria {
	c := &Criteria{
		Rules: m.ResourceRules, Exclude: m.ExcludeResourceRules, All: len(m.ResourceRules) == 0,
		Equivalent: m.MatchPolicy != nil && *m.MatchPolicy == admissionv1.Equivalent,
	}
	c.selectors(m.NamespaceSelector, m.ObjectSelector)
	return c
}

func (c *Criteria) selectors(namespace, object *metav1.LabelSelector) {
	// An absent selector selects everything here: objects from before a default
	// may lack it.
	parse := func(s *metav1.LabelSelector) (labels.Selector, error) {
		if s == nil {
			return labels.Everything(), nil
		}
		return metav1.LabelSelectorAsSelector(s)
	}
	c.namespace, c.namespaceErr = parse(namespace)
	c.object, c.objectErr = parse(object)
}

// Match is a resource and kind with which a write was matched.
type Match struct {
	Resource kschema.GroupVersionResource
	Kind     kschema.GroupVersionKind
}

// Match says whether a write matches, and as what: with Equivalent it may be
// another version than the one that was asked for.
func (c *Criteria) Match(r *request.Request) (Match, bool, error) {
	inNamespace, namespaceErr := c.matchNamespace(r)
	if !inNamespace && namespaceErr == nil {
		return Match{}, false, nil
	}
	selected, objectErr := c.matchObject(r)
	if !selected && objectErr == nil {
		return Match{}, false, nil
	}
	if _, excluded, err := c.matchRules(c.Exclude, r); excluded || err != nil {
		return Match{}, false, err
	}
	m, ok, err := Match{r.GetResource(), r.GetKind()}, true, error(nil)
	if !c.All {
		m, ok, err = c.matchRules(c.Rules, r)
	}
	switch {
	case err != nil || !ok:
		return Match{}, false, err
	case namespaceErr != nil:
		return Match{}, false, namespaceErr
	case objectErr != nil:
		return Match{}, false, objectErr
	}
	return m, true, nil
}

func (c *Criteria) matchNamespace(r *request.Request) (bool, error) {
	isNamespace := r.GetResource().Resource == "namespaces"
	if r.GetNamespace() == "" && !isNamespace {
		return true, nil // cluster-scoped objects are in no namespace to be selected
	}
	if c.namespaceErr != nil {
		return false, apierrors.NewInternalError(c.namespaceErr)
	}
	if c.namespace.Empty() {
		return true, nil
	}
	if isNamespace && r.GetSubresource() == "" && (r.GetOperation() == admission.Create || r.GetOperation() == admission.Update) {
		return c.namespace.Matches(labels.Set(r.Write.Object.GetLabels())), nil
	}
	ns, ok := Namespace(r)
	if !ok {
		return false, apierrors.NewNotFound(corev1.Resource("namespaces"), r.GetNamespace())
	}
	return c.namespace.Matches(labels.Set(ns.Labels)), nil
}

// Namespace returns the namespace of a write.
func Namespace(r *request.Request) (*corev1.Namespace, bool) {
	return client.Cached[*corev1.Namespace](r.Write.Cluster, schema.Key{Name: r.GetNamespace()})
}

func (c *Criteria) matchObject(r *request.Request) (bool, error) {
	if c.objectErr != nil {
		return false, apierrors.NewInternalError(c.objectErr)
	}
	if c.object.Empty() {
		return true, nil
	}
	has := func(o runtime.Object) bool {
		m, ok := o.(metav1.Object)
		return ok && c.object.Matches(labels.Set(m.GetLabels()))
	}
	return has(r.GetObject()) || has(r.GetOldObject()), nil
}

// matchRules returns as what a write is matched by a list of rules. The rules
// for exactly what was asked come first.
func (c *Criteria) matchRules(list []admissionv1.NamedRuleWithOperations, r *request.Request) (Match, bool, error) {
	for i := range list {
		if matches(&list[i], r) {
			return Match{r.GetResource(), r.GetKind()}, true, nil
		}
	}
	if !c.Equivalent || len(list) == 0 {
		return Match{}, false, nil
	}
	equivalents := r.Equivalents()
	for i := range list {
		for _, other := range equivalents {
			if !matches(&list[i], &as{r, other.GVR()}) {
				continue
			}
			kind := r.KindOf(other)
			if kind.Empty() {
				return Match{}, false, fmt.Errorf("unable to convert to %v: unknown kind", other.GVR())
			}
			return Match{other.GVR(), kind}, true, nil
		}
	}
	return Match{}, false, nil
}

func matches(rule *admissionv1.NamedRuleWithOperations, a admission.Attributes) bool {
	m := rules.Matcher{Rule: rule.RuleWithOperations, Attr: a}
	return m.Matches() && (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

// as is a write asked for as another resource.
type as struct {
	admission.Attributes
	resource kschema.GroupVersionResource
}

// GetResource implements admission.Attributes.
func (a *as) GetResource() kschema.GroupVersionResource { return a.resource }
