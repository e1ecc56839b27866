// Package policy asks policies about writes: the plugins
// ValidatingAdmissionPolicy and MutatingAdmissionPolicy, whose rules are CEL
// expressions in the cluster.
//
// Watches the policies and their bindings, and reads their parameters from the
// cluster as the write sees it. Owns the status of ValidatingAdmissionPolicies
// (Status, a reconciler). It promises that an expression costs no more than
// upstream's budget; what does not compile or goes wrong is for the failure
// policy to decide.
//
// What PodPreset was for - environment, volumes and mounts put into every pod
// that a selector matches - is a MutatingAdmissionPolicy here:
//
//	spec:
//	  matchConstraints:
//	    resourceRules:
//	    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
//	    objectSelector: {matchLabels: {role: frontend}}
//	  reinvocationPolicy: Never
//	  mutations:
//	  - patchType: ApplyConfiguration
//	    applyConfiguration:
//	      expression: >
//	        Object{spec: Object.spec{containers: object.spec.containers.map(c,
//	          Object.spec.containers{name: c.name, env: [
//	            Object.spec.containers.env{name: "DB_PORT", value: "6379"}]})}}
package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	cachingauthorizer "k8s.io/apiserver/pkg/admission/plugin/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/admission/match"
	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/admission/source"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Config is what the plugins need from outside.
type Config struct {
	Cache   client.Cache
	Catalog *schema.Live
	// Authorizer is the "authorizer" of expressions. nil: expressions that use
	// it fail.
	Authorizer authorizer.Authorizer
	// Metrics is where the metrics are registered; nil counts nothing.
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

func kind(name string) kschema.GroupVersionKind {
	return kschema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: name}
}

// New returns both plugins; it starts nothing.
func New(cfg Config) (*Mutating, *Validating) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Authorizer == nil {
		cfg.Authorizer = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionNoOpinion, "", errors.New("no authorizer")
		})
	}
	m := &Mutating{cfg: cfg}
	m.policies = source.New(source.Config[[]*mutator]{
		Cache: cfg.Cache, Build: readMutators(map[string]*mutator{}),
		Kinds: []kschema.GroupVersionKind{kind("MutatingAdmissionPolicy"), kind("MutatingAdmissionPolicyBinding")},
	})
	v := &Validating{cfg: cfg, metrics: newMetrics(cfg.Metrics)}
	v.policies = source.New(source.Config[[]*validator]{
		Cache: cfg.Cache, Build: readValidators(map[string]*validator{}),
		Kinds: []kschema.GroupVersionKind{kind("ValidatingAdmissionPolicy"), kind("ValidatingAdmissionPolicyBinding")},
	})
	return m, v
}

// binding is a use of a policy.
type binding struct {
	name     string
	params   *admissionv1.ParamRef
	criteria *match.Criteria // nil: as the policy's
	actions  []admissionv1.ValidationAction
}

func newBinding(name string, params *admissionv1.ParamRef, m *admissionv1.MatchResources) binding {
	b := binding{name: name, params: params}
	if m != nil {
		b.criteria = match.ForPolicy(m)
	}
	return b
}

// compiled are programs that are made when a policy matches for the first time:
// most policies match few writes, and compiling takes milliseconds.
type compiled[T any] struct {
	once  sync.Once
	value T
}

func (c *compiled[T]) get(compile func() T) T {
	c.once.Do(func() { c.value = compile() })
	return c.value
}

// question is a write as policies see it.
type question struct {
	*request.Request
	authz     authorizer.Authorizer
	namespace *corev1.Namespace
	asked     bool
}

func newQuestion(r *request.Request, a authorizer.Authorizer) *question {
	return &question{Request: r, authz: cachingauthorizer.NewCachingAuthorizer(a)}
}

// inNamespace returns the namespace of the write; nil for what is in none, as
// which namespaces themselves count.
func (q *question) inNamespace() (*corev1.Namespace, error) {
	if q.asked {
		return q.namespace, nil
	}
	if k := q.GetKind(); q.GetNamespace() != "" && !(k.Group == "" && k.Version == "v1" && k.Kind == "Namespace") {
		ns, ok := match.Namespace(q.Request)
		if !ok {
			return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), q.GetNamespace())
		}
		q.namespace = ns
	}
	q.asked = true
	return q.namespace, nil
}

// errNoConstraints is the error of a policy that the API would not have taken.
var errNoConstraints = errors.New("policy contained no match constraints, a required field")

// matchesPolicy says as what a policy is about a write.
func matchesPolicy(c *match.Criteria, r *request.Request) (match.Match, bool, error) {
	if c == nil {
		return match.Match{}, false, errNoConstraints
	}
	return c.Match(r)
}

func (b *binding) matches(r *request.Request) (bool, error) {
	if b.criteria == nil {
		return true, nil
	}
	_, ok, err := b.criteria.Match(r)
	return ok, err
}

func failurePolicy(p *admissionv1.FailurePolicyType) admissionv1.FailurePolicyType {
	if p == nil {
		return admissionv1.Fail
	}
	return *p
}

// kindString is the kind of a parameter as upstream prints it.
func kindString(p *admissionv1.ParamKind) string {
	return fmt.Sprintf("%s, Kind=%s", p.APIVersion, p.Kind)
}
