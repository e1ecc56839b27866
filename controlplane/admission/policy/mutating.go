package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/writ-os/writ/controlplane/admission/match"
	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/admission/source"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge"
)

// mutatingName is that of the plugin in --enable-admission-plugins.
const mutatingName = "MutatingAdmissionPolicy"

// Mutating is the plugin MutatingAdmissionPolicy.
type Mutating struct {
	cfg      Config
	policies *source.Source[[]*mutator]
}

var _ registry.Admission = (*Mutating)(nil)

// mutator is a policy with its bindings.
type mutator struct {
	*admissionv1.MutatingAdmissionPolicy
	criteria *match.Criteria
	programs *compiled[*patchers]
	bindings []binding
}

// patchers are the compiled expressions of a mutating policy.
type patchers struct {
	err        error
	compiler   *celplugin.CompositedCompiler
	conditions matchconditions.Matcher
	list       []patch.Patcher
}

func compileMutating(p *admissionv1.MutatingAdmissionPolicy) *patchers {
	c, err := celplugin.NewCompositedCompiler(base())
	if err != nil {
		return &patchers{err: fmt.Errorf("failed to initialize CEL compiler: %w", err)}
	}
	all := celplugin.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c.CompileAndStoreVariables(variables(p.Spec.Variables), all, environment.StoredExpressions)
	out := &patchers{compiler: c, conditions: conditions(c, p.Spec.MatchConditions, all, p.Spec.FailurePolicy, p.Name)}
	all.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		switch {
		case m.PatchType == admissionv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			e := c.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, all, environment.StoredExpressions)
			out.list = append(out.list, patch.NewJSONPatcher(e))
		case m.PatchType == admissionv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			e := c.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, all, environment.StoredExpressions)
			out.list = append(out.list, patch.NewApplyConfigurationPatcher(e))
		}
	}
	return out
}

// readMutators reads the policies that are bound, by name.
func readMutators(kept map[string]*mutator) func(client.Cache) []*mutator {
	return func(c client.Cache) []*mutator {
		bound := map[string][]binding{}
		for _, b := range source.Objects[*admissionv1.MutatingAdmissionPolicyBinding](c, kind("MutatingAdmissionPolicyBinding")) {
			bound[b.Spec.PolicyName] = append(bound[b.Spec.PolicyName], newBinding(b.Name, b.Spec.ParamRef, b.Spec.MatchResources))
		}
		was := map[string]*mutator{}
		for k, v := range kept {
			was[k] = v
		}
		clear(kept)
		var out []*mutator
		for _, p := range source.Objects[*admissionv1.MutatingAdmissionPolicy](c, kind("MutatingAdmissionPolicy")) {
			m := &mutator{MutatingAdmissionPolicy: p, programs: &compiled[*patchers]{}, bindings: bound[p.Name]}
			if p.Spec.MatchConstraints != nil {
				m.criteria = match.ForPolicy(p.Spec.MatchConstraints)
			}
			if old := was[p.Name]; old != nil && old.UID == p.UID && old.ResourceVersion == p.ResourceVersion {
				m.programs = old.programs
			}
			kept[p.Name] = m
			if len(m.bindings) > 0 {
				out = append(out, m)
			}
		}
		slices.SortFunc(out, func(a, b *mutator) int { return cmp.Compare(a.Name, b.Name) })
		return out
	}
}

// Run follows the policies until ctx ends.
func (p *Mutating) Run(ctx context.Context) error { return p.policies.Run(ctx) }

// Handles implements registry.Handler.
func (p *Mutating) Handles(verb string, r *schema.Resource, _ string) bool {
	return !p.policies.Empty() && !request.Exempt(r)
}

// Validate implements registry.Admission.
func (*Mutating) Validate(context.Context, *registry.Attributes) error { return nil }

// refused is a policy that a write does not get past.
type refused struct {
	message string
	reason  metav1.StatusReason
}

// Mutate implements registry.Admission.
func (p *Mutating) Mutate(ctx context.Context, a *registry.Attributes) error {
	list := p.policies.Load()
	if len(list) == 0 {
		return nil
	}
	pass := request.PassFrom(ctx)
	again := request.State(pass, mutatingName, request.NewReinvocation)
	q := newQuestion(request.New(a, p.cfg.Catalog), p.cfg.Authorizer)
	if pass.Second() {
		again.Begin(q.GetObject())
	}
	defer func() {
		var last runtime.Object
		if a.Object != nil {
			last = a.Object
		}
		again.End(last)
	}()
	run := &run{Mutating: p, pass: pass, again: again, q: q}
	for _, m := range list {
		if err := run.policy(ctx, m); err != nil {
			return err
		}
	}
	if len(run.refused) == 0 {
		return nil
	}
	err := new(apierrors.StatusError)
	errors.As(admission.NewForbidden(run.q, errors.New("admission request denied by policy")), &err)
	err.ErrStatus.Message = run.refused[0].message
	if r := run.refused[0].reason; r != "" {
		err.ErrStatus.Reason = r
	}
	for _, r := range run.refused {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: r.message})
	}
	return err
}

// run is one pass of a write through all policies.
type run struct {
	*Mutating
	pass    *request.Pass
	again   *request.Reinvocation
	q       *question
	refused []refused
}

// fail notes what went wrong, unless the policy ignores failures.
func (r *run) fail(m *mutator, binding string, err error, reason metav1.StatusReason) {
	if failurePolicy(m.Spec.FailurePolicy) == admissionv1.Ignore {
		return
	}
	text := fmt.Sprintf("policy %q denied request: %s", m.Name, err)
	if binding != "" {
		text = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", m.Name, binding, err)
	}
	r.refused = append(r.refused, refused{text, reason})
}

// policy runs one policy for all its bindings and their parameters.
func (r *run) policy(ctx context.Context, m *mutator) error {
	as, ok, err := matchesPolicy(m.criteria, r.q.Request)
	if err != nil {
		r.fail(m, "", err, "")
		return nil
	}
	if !ok {
		return nil
	}
	params, err := paramResource(r.cfg.Catalog.Load(), m.Spec.ParamKind)
	if err != nil {
		r.fail(m, "", err, "")
		return nil
	}
	for i := range m.bindings {
		b := &m.bindings[i]
		ok, err := b.matches(r.q.Request)
		if err != nil {
			r.fail(m, b.name, err, "")
			continue
		}
		if !ok {
			continue
		}
		objects, err := collectParams(ctx, r.q.Write.Cluster, params, b.params, r.q.GetNamespace())
		if err != nil {
			r.fail(m, b.name, err, "")
			continue
		}
		for _, param := range objects {
			if err := r.invoke(ctx, m, b, as, param); err != nil {
				return err
			}
		}
	}
	return nil
}

// invoke runs the mutations of a policy with one parameter.
func (r *run) invoke(ctx context.Context, m *mutator, b *binding, as match.Match, param runtime.Object) error {
	programs := m.programs.get(func() *patchers { return compileMutating(m.MutatingAdmissionPolicy) })
	if programs.err != nil {
		r.fail(m, b.name, programs.err, "")
		return nil
	}
	ns, err := r.q.inNamespace()
	if err != nil {
		return err
	}
	ctx = programs.compiler.CreateContext(ctx)
	attrs, err := r.q.As(ctx, as.Kind)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if programs.conditions != nil {
		res := programs.conditions.Match(ctx, attrs, param, r.q.authz)
		if res.Error != nil {
			r.fail(m, b.name, res.Error, metav1.StatusReasonInvalid)
			return nil
		}
		if !res.Matches {
			return nil
		}
	}
	id := invocationID(m, b, param)
	if r.pass.Second() && !r.again.Due(id) {
		return nil
	}
	if _, ok := attrs.VersionedObject.(schema.Object); ok && r.q.Write.Object != nil {
		req := patch.Request{
			MatchedResource: as.Resource, ObjectInterfaces: request.Interfaces{}, Namespace: celplugin.CreateNamespaceObject(ns),
			OptionalVariables: celplugin.OptionalVariableBindings{VersionedParams: param, Authorizer: r.q.authz},
			TypeConverter:     typesOf(r.cfg.Catalog.Load(), attrs),
		}
		if err := r.patch(ctx, m, b, programs, attrs, req); err != nil {
			return err
		}
	}
	if m.Spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy {
		r.again.Willing(id)
	}
	return nil
}

// patch applies the mutations one after the other.
func (r *run) patch(ctx context.Context, m *mutator, b *binding, programs *patchers, attrs *admission.VersionedAttributes, req patch.Request) error {
	before := attrs.VersionedObject
	for _, one := range programs.list {
		req.VersionedAttributes = attrs
		out, err := one.Patch(ctx, req, celconfig.RuntimeCELCostBudget)
		var next schema.Object
		if err == nil {
			next, err = request.Typed(attrs.VersionedObject.(schema.Object), out)
		}
		if err != nil {
			var status *apierrors.StatusError
			if errors.As(err, &status) {
				return status
			}
			r.fail(m, b.name, err, metav1.StatusReasonInvalid)
			continue
		}
		request.Default(next)
		attrs = &admission.VersionedAttributes{Attributes: attrs.Attributes, VersionedKind: attrs.VersionedKind,
			VersionedOldObject: attrs.VersionedOldObject, VersionedObject: next, Dirty: true}
	}
	if !attrs.Dirty {
		return nil
	}
	next := attrs.VersionedObject.(schema.Object)
	if err := r.q.Changed(ctx, next); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	if !apiequality.Semantic.DeepEqual(before, next) {
		r.again.Change()
		r.pass.Again()
	}
	r.q = &question{Request: request.New(r.q.Write, r.cfg.Catalog), authz: r.q.authz, namespace: r.q.namespace, asked: r.q.asked}
	return nil
}

func invocationID(m *mutator, b *binding, param runtime.Object) string {
	id := m.Name + "\x00" + b.name
	if o, ok := param.(schema.Object); ok {
		id += "\x00" + schema.KeyOf(o).String()
	}
	return id
}

// typesOf are the merge types of what is being mutated.
func typesOf(c *schema.Catalog, attrs *admission.VersionedAttributes) managedfields.TypeConverter {
	if r := c.ByGVK(attrs.VersionedKind); r != nil {
		return merge.Types(r)
	}
	return managedfields.NewDeducedTypeConverter()
}
