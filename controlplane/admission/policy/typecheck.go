package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/writ-os/writ/schema"
)

// maxTypes bounds how many kinds a policy is checked against.
const maxTypes = 10

// Schemas returns the schema of a kind, without references, or an error for
// which errors.Is(err, resolver.ErrSchemaNotFound) holds.
type Schemas func(kschema.GroupVersionKind) (*spec.Schema, error)

// OpenAPI returns the schemas of OpenAPI v3 documents: document returns the
// JSON of a group and version, nil when there is none.
func OpenAPI(document func(kschema.GroupVersion) ([]byte, error)) Schemas {
	const prefix = "#/components/schemas/"
	return func(gvk kschema.GroupVersionKind) (*spec.Schema, error) {
		data, err := document(gvk.GroupVersion())
		if err != nil {
			return nil, fmt.Errorf("read OpenAPI of %s: %w", gvk.GroupVersion(), err)
		}
		if data == nil {
			return nil, fmt.Errorf("cannot resolve group version %q: %w", gvk.GroupVersion(), resolver.ErrSchemaNotFound)
		}
		var doc struct {
			Components struct {
				Schemas map[string]*spec.Schema `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(data, &doc); err != nil {
			return nil, fmt.Errorf("read OpenAPI of %s: %w", gvk.GroupVersion(), err)
		}
		for name, s := range doc.Components.Schemas {
			var kinds []kschema.GroupVersionKind
			if err := s.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds); err != nil || !slices.Contains(kinds, gvk) {
				continue
			}
			return resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
				s, ok := doc.Components.Schemas[strings.TrimPrefix(ref, prefix)]
				return s, ok
			}, name)
		}
		return nil, fmt.Errorf("cannot resolve group version kind %q: %w", gvk, resolver.ErrSchemaNotFound)
	}
}

// checker finds expressions that cannot work for the kinds that a policy names.
// What it finds is a warning: the policy is used as it is.
type checker struct {
	catalog *schema.Catalog
	schemas Schemas
}

// check returns the warnings about a policy.
func (c *checker) check(p *admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning {
	kinds, types := c.kinds(p), map[kschema.GroupVersionKind]*apiservercel.DeclType{}
	kinds = slices.DeleteFunc(kinds, func(k kschema.GroupVersionKind) bool {
		t, err := c.declType(k)
		types[k] = t
		return err != nil
	})
	var params *apiservercel.DeclType
	if p.Spec.ParamKind != nil {
		if gv, err := kschema.ParseGroupVersion(p.Spec.ParamKind.APIVersion); err == nil {
			params, _ = c.declType(gv.WithKind(p.Spec.ParamKind.Kind)) // unknown: anything goes
		}
	}
	var out []admissionv1.ExpressionWarning
	warn := func(field, text string) {
		if text == "" {
			return
		}
		var found []string
		for _, k := range kinds {
			if s := checkExpression(p, k, types[k], params, text); s != "" {
				found = append(found, s)
			}
		}
		if len(found) > 0 {
			out = append(out, admissionv1.ExpressionWarning{FieldRef: field, Warning: strings.Join(found, "\n")})
		}
	}
	for i, v := range p.Spec.Validations {
		warn(fmt.Sprintf("spec.validations[%d].expression", i), v.Expression)
		warn(fmt.Sprintf("spec.validations[%d].messageExpression", i), v.MessageExpression)
	}
	return out
}

// kinds are those that the rules of a policy name without wildcards.
func (c *checker) kinds(p *admissionv1.ValidatingAdmissionPolicy) []kschema.GroupVersionKind {
	if p.Spec.MatchConstraints == nil {
		return nil
	}
	found := map[kschema.GroupVersionKind]bool{}
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		if wild(rule.APIGroups) || wild(rule.APIVersions) {
			continue
		}
		n := 0
		for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
			for _, v := range slices.Sorted(slices.Values(rule.APIVersions)) {
				for _, res := range slices.Sorted(slices.Values(rule.Resources)) {
					r := c.catalog.ByGVR(kschema.GroupVersionResource{Group: group, Version: v, Resource: res})
					if r == nil || strings.ContainsAny(res, "*/") || n == maxTypes {
						continue
					}
					found[r.GVK()] = true
					n++
				}
			}
		}
	}
	out := make([]kschema.GroupVersionKind, 0, len(found))
	for k := range found {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b kschema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

func wild(list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") })
}

func (c *checker) declType(k kschema.GroupVersionKind) (*apiservercel.DeclType, error) {
	if c.schemas == nil {
		return nil, resolver.ErrSchemaNotFound
	}
	s, err := c.schemas(k)
	if err != nil {
		return nil, err
	}
	t := common.SchemaDeclType(&openapi.Schema{Schema: s}, true)
	if t == nil {
		return nil, nil
	}
	return t.MaybeAssignTypeName(k.Kind + "0"), nil
}

// checkExpression compiles an expression for one kind and returns what is
// wrong with it, "" when nothing is.
func checkExpression(p *admissionv1.ValidatingAdmissionPolicy, k kschema.GroupVersionKind, object, params *apiservercel.DeclType, text string) string {
	env, err := typedEnv(p.Spec.ParamKind != nil, object, params)
	if err != nil {
		return fmt.Sprintf("%v: type checking error: %v\n", k, err)
	}
	c, err := celplugin.NewCompositedCompilerForTypeChecking(env)
	if err != nil {
		return fmt.Sprintf("%v: type checking error: %v\n", k, err)
	}
	c.Compiler = typing{c}
	options := celplugin.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c.CompileAndStoreVariables(variables(p.Spec.Variables), options, environment.StoredExpressions)
	res := c.CompileCELExpression(&expression{text: text, types: []*celgo.Type{celgo.AnyType}}, options, environment.StoredExpressions)
	switch {
	case res.Error == nil:
		return ""
	case res.Error.Type == apiservercel.ErrorTypeInvalid:
		return fmt.Sprintf("%v: %s\n", k, res.Error)
	}
	return fmt.Sprintf("%v: type checking error: %v\n", k, res.Error)
}

// typedEnv declares the variables of a policy with the types that are known.
func typedEnv(hasParams bool, object, params *apiservercel.DeclType) (*environment.EnvSet, error) {
	req, ns := celplugin.BuildRequestType(), celplugin.BuildNamespaceType()
	declared := []*apiservercel.DeclType{ns, req}
	var vars []celgo.EnvOption
	add := func(t *apiservercel.DeclType, names ...string) {
		ct := celgo.DynType
		if t != nil {
			ct = t.CelType()
		}
		for _, n := range names {
			vars = append(vars, celgo.Variable(n, ct))
		}
	}
	add(ns, celplugin.NamespaceVarName)
	add(req, celplugin.RequestVarName)
	if object != nil {
		declared = append(declared, object)
	}
	add(object, celplugin.ObjectVarName, celplugin.OldObjectVarName)
	if hasParams {
		if params != nil && (object == nil || params.TypeName() != object.TypeName()) {
			declared = append(declared, params)
		}
		add(params, celplugin.ParamsVarName)
	}
	vars = append(vars, celgo.Variable("authorizer", library.AuthorizerType))
	return base().Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: vars, DeclTypes: declared,
	})
}

// base is the environment that all policies begin with; it takes a while.
var base = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// typing compiles without making a program.
type typing struct{ c *celplugin.CompositedCompiler }

// CompileCELExpression implements cel.Compiler.
func (t typing) CompileCELExpression(e celplugin.ExpressionAccessor, _ celplugin.OptionalVariableDeclarations, mode environment.Type) celplugin.CompilationResult {
	fail := func(kind apiservercel.ErrorType, text string) celplugin.CompilationResult {
		return celplugin.CompilationResult{Error: &apiservercel.Error{Type: kind, Detail: text, Cause: errors.New(text)}, ExpressionAccessor: e}
	}
	env, err := t.c.Env(mode)
	if err != nil {
		return fail(apiservercel.ErrorTypeInternal, fmt.Sprintf("fail to build env: %v", err))
	}
	ast, issues := env.Compile(e.GetExpression())
	if issues != nil && issues.Err() != nil {
		return fail(apiservercel.ErrorTypeInvalid, issues.String())
	}
	return celplugin.CompilationResult{OutputType: ast.OutputType()}
}
