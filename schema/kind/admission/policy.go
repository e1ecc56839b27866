package admission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// ValidatingAdmissionPolicy is the judge of its kind.
var ValidatingAdmissionPolicy = &kind.Kind{
	Resource:   schema.ResourceFor[*admissionregistrationv1.ValidatingAdmissionPolicy](),
	Generation: true, Conditional: true,
	Validate: func(o schema.Object) field.ErrorList {
		return validatingPolicyErrors(o.(*admissionregistrationv1.ValidatingAdmissionPolicy))
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		return metav1validation.ValidateConditions(o.(*admissionregistrationv1.ValidatingAdmissionPolicy).Status.Conditions, field.NewPath("status", "conditions"))
	},
}

// MutatingAdmissionPolicy is the judge of its kind.
var MutatingAdmissionPolicy = &kind.Kind{
	Resource:   schema.ResourceFor[*admissionregistrationv1.MutatingAdmissionPolicy](),
	Generation: true, Conditional: true,
	Validate: func(o schema.Object) field.ErrorList {
		return mutatingPolicyErrors(o.(*admissionregistrationv1.MutatingAdmissionPolicy))
	},
}

// ValidatingAdmissionPolicyBinding is the judge of its kind.
var ValidatingAdmissionPolicyBinding = &kind.Kind{
	Resource:   schema.ResourceFor[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](),
	Generation: true, Conditional: true,
	Validate: func(o schema.Object) field.ErrorList {
		s, at := o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec, field.NewPath("spec")
		errs := bindingErrors(s.PolicyName, s.ParamRef, s.MatchResources, at)
		return append(errs, validationActionErrors(s.ValidationActions, at.Child("validationActions"))...)
	},
}

// MutatingAdmissionPolicyBinding is the judge of its kind.
var MutatingAdmissionPolicyBinding = &kind.Kind{
	Resource:   schema.ResourceFor[*admissionregistrationv1.MutatingAdmissionPolicyBinding](),
	Generation: true, Conditional: true,
	Validate: func(o schema.Object) field.ErrorList {
		s := o.(*admissionregistrationv1.MutatingAdmissionPolicyBinding).Spec
		return bindingErrors(s.PolicyName, s.ParamRef, s.MatchResources, field.NewPath("spec"))
	},
}

func validatingPolicyErrors(p *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	s, at := &p.Spec, field.NewPath("spec")
	c := newCompiler(s.ParamKind != nil, len(s.Variables) > 0)
	errs := policyHeadErrors(s.FailurePolicy, s.ParamKind, s.MatchConstraints, at)
	errs = append(errs, matchConditionErrors(s.MatchConditions, s.ParamKind != nil, at.Child("matchConditions"))...)
	errs = append(errs, c.variables(s.Variables, at.Child("variables"))...)
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const need = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(at.Child("validations"), need), field.Required(at.Child("auditAnnotations"), need))
	}
	for i := range s.Validations {
		errs = append(errs, c.validation(&s.Validations[i], at.Child("validations").Index(i))...)
	}
	return append(errs, c.annotations(p.Name, s.AuditAnnotations, at.Child("auditAnnotations"))...)
}

func mutatingPolicyErrors(p *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	s, at := &p.Spec, field.NewPath("spec")
	c := newCompiler(s.ParamKind != nil, true)
	errs := policyHeadErrors(s.FailurePolicy, s.ParamKind, s.MatchConstraints, at)
	if s.MatchConstraints != nil {
		for _, r := range s.MatchConstraints.ResourceRules {
			for i := range r.Operations {
				errs = append(errs, valid.OneOf(&r.Operations[i], at.Child("matchConstraints", "resourceRules", "operations"), "*", "CONNECT", "CREATE", "UPDATE")...)
			}
		}
	}
	errs = append(errs, matchConditionErrors(s.MatchConditions, s.ParamKind != nil, at.Child("matchConditions"))...)
	errs = append(errs, c.variables(s.Variables, at.Child("variables"))...)
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		errs = append(errs, c.mutation(&s.Mutations[i], at.Child("mutations").Index(i))...)
	}
	if s.ReinvocationPolicy == "" {
		return append(errs, field.Required(at.Child("reinvocationPolicy"), ""))
	}
	return append(errs, valid.OneOf(&s.ReinvocationPolicy, at.Child("reinvocationPolicy"), "IfNeeded", "Never")...)
}

// policyHeadErrors checks what policies of both kinds have.
func policyHeadErrors(failure *admissionregistrationv1.FailurePolicyType, params *admissionregistrationv1.ParamKind, match *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	errs := valid.OneOf(failure, at.Child("failurePolicy"), "Fail", "Ignore")
	if params != nil {
		errs = append(errs, paramKindErrors(params, at.Child("paramKind"))...)
	}
	if match == nil {
		return append(errs, field.Required(at.Child("matchConstraints"), ""))
	}
	errs = append(errs, matchErrors(match, at.Child("matchConstraints"))...)
	if len(match.ResourceRules) == 0 {
		errs = append(errs, field.Required(at.Child("matchConstraints", "resourceRules"), ""))
	}
	return errs
}

func paramKindErrors(k *admissionregistrationv1.ParamKind, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	version := at.Child("apiVersion")
	gv, err := kschema.ParseGroupVersion(k.APIVersion)
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(version, ""))
	case err != nil:
		errs = append(errs, field.Invalid(version, k.APIVersion, err.Error()))
	default:
		if msgs := utilvalidation.IsDNS1123Subdomain(gv.Group); gv.Group != "" && len(msgs) > 0 {
			errs = append(errs, field.Invalid(version, gv.Group, strings.Join(msgs, ",")))
		}
		if gv.Version == "" {
			errs = append(errs, field.Invalid(version, k.APIVersion, "version must be specified"))
		} else if msgs := utilvalidation.IsDNS1035Label(gv.Version); len(msgs) > 0 {
			errs = append(errs, field.Invalid(version, gv.Version, strings.Join(msgs, ",")))
		}
	}
	if k.Kind == "" {
		return append(errs, field.Required(at.Child("kind"), ""))
	}
	if msgs := utilvalidation.IsDNS1035Label(strings.ToLower(k.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}

func matchErrors(m *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := valid.OneOf(m.MatchPolicy, at.Child("matchPolicy"), "Equivalent", "Exact")
	errs = append(errs, valid.LabelSelector(m.NamespaceSelector, at.Child("namespaceSelector"))...)
	errs = append(errs, valid.LabelSelector(m.ObjectSelector, at.Child("objectSelector"))...)
	for name, list := range map[string][]admissionregistrationv1.NamedRuleWithOperations{"resourceRules": m.ResourceRules, "excludeResourceRules": m.ExcludeResourceRules} {
		for i := range list {
			at := at.Child(name).Index(i)
			for j, n := range list[i].ResourceNames {
				for _, msg := range content.IsPathSegmentName(n) {
					errs = append(errs, field.Invalid(at.Child("resourceNames").Index(j), n, msg))
				}
				if slices.Contains(list[i].ResourceNames[:j], n) {
					errs = append(errs, field.Duplicate(at.Child("resourceNames").Index(j), n))
				}
			}
			errs = append(errs, ruleErrors(&list[i].RuleWithOperations, at)...)
		}
	}
	return errs
}

func bindingErrors(policy string, ref *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(at.Child("policyName"), ""))
	} else {
		for _, msg := range validation.NameIsDNSSubdomain(policy, false) {
			errs = append(errs, field.Invalid(at.Child("policyName"), policy, msg))
		}
	}
	if ref != nil {
		errs = append(errs, paramRefErrors(ref, at.Child("paramRef"))...)
	}
	return append(errs, matchErrors(match, at.Child("matchResources"))...)
}

func paramRefErrors(p *admissionregistrationv1.ParamRef, at *field.Path) field.ErrorList {
	const exclusive = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if p.Name != "" {
		for _, msg := range content.IsPathSegmentName(p.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), p.Name, msg))
		}
		if p.Selector != nil {
			errs = append(errs, field.Forbidden(at.Child("name"), exclusive))
		}
	}
	if p.Selector != nil {
		errs = append(errs, valid.LabelSelector(p.Selector, at.Child("selector"))...)
		if p.Name != "" {
			errs = append(errs, field.Forbidden(at.Child("selector"), exclusive))
		}
	}
	if p.Name == "" && p.Selector == nil {
		errs = append(errs, field.Required(at, "one of name or selector must be specified"))
	}
	if a := p.ParameterNotFoundAction; a == nil || *a == "" {
		return append(errs, field.Required(at.Child("parameterNotFoundAction"), ""))
	}
	return append(errs, valid.OneOf(p.ParameterNotFoundAction, at.Child("parameterNotFoundAction"), "Deny", "Allow")...)
}

func validationActionErrors(actions []admissionregistrationv1.ValidationAction, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range actions {
		errs = append(errs, valid.OneOf(&actions[i], at.Index(i), "Audit", "Deny", "Warn")...)
		if slices.Contains(actions[:i], actions[i]) {
			errs = append(errs, field.Duplicate(at.Index(i), actions[i]))
		}
	}
	if slices.Contains(actions, admissionregistrationv1.Deny) && slices.Contains(actions, admissionregistrationv1.Warn) {
		errs = append(errs, field.Invalid(at, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(actions) == 0 {
		errs = append(errs, field.Required(at, "at least one validation action is required"))
	}
	return errs
}

// maxMatchConditions bounds the conditions of one policy or webhook.
const maxMatchConditions = 64

func matchConditionErrors(conditions []admissionregistrationv1.MatchCondition, params bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(at, len(conditions), maxMatchConditions))
	}
	seen := map[string]bool{}
	c := &compiler{Compiler: statelessCompiler(), params: params}
	for i, m := range conditions {
		at := at.Index(i)
		if text := strings.TrimSpace(m.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			errs = append(errs, c.check(text, at.Child("expression"), true, celgo.BoolType)...)
		}
		if m.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, valid.QualifiedName(m.Name, at.Child("name"))...)
		if seen[m.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), m.Name))
		}
		seen[m.Name] = true
	}
	return errs
}

// compiler checks the expressions of one policy: variables are known to what
// comes after them.
type compiler struct {
	celplugin.Compiler
	composed *celplugin.CompositedCompiler
	params   bool
}

// statelessCompiler serves all expressions that see no variables.
var statelessCompiler = sync.OnceValue(func() celplugin.Compiler {
	return celplugin.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

func newCompiler(params, variables bool) *compiler {
	c := &compiler{Compiler: statelessCompiler(), params: params}
	if !variables {
		return c
	}
	if composed, err := celplugin.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())); err == nil {
		c.Compiler, c.composed = composed, composed
	}
	return c
}

// expression is text that must have one of some types.
type expression struct {
	name, text string
	types      []*celgo.Type
}

func (e *expression) GetName() string            { return e.name }
func (e *expression) GetExpression() string      { return e.text }
func (e *expression) ReturnTypes() []*celgo.Type { return e.types }

// check compiles an expression.
func (c *compiler) check(text string, at *field.Path, authorizer bool, types ...*celgo.Type) field.ErrorList {
	return c.compile(text, at, celplugin.OptionalVariableDeclarations{HasParams: c.params, HasAuthorizer: authorizer}, types...)
}

func (c *compiler) compile(text string, at *field.Path, vars celplugin.OptionalVariableDeclarations, types ...*celgo.Type) field.ErrorList {
	r := c.CompileCELExpression(&expression{text: text, types: types}, vars, environment.NewExpressions)
	if r.Error == nil {
		return nil
	}
	return field.ErrorList{compileError(at, text, r.Error)}
}

func compileError(at *field.Path, text string, err *apiservercel.Error) *field.Error {
	switch err.Type {
	case apiservercel.ErrorTypeRequired:
		return field.Required(at, err.Detail)
	case apiservercel.ErrorTypeInvalid:
		return field.Invalid(at, text, err.Detail)
	}
	return field.InternalError(at, err)
}

var (
	celName  = regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")
	celWords = []string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
		"loop", "package", "namespace", "return", "var", "void", "while",
	}
)

func (c *compiler) variables(list []admissionregistrationv1.Variable, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range list {
		at := at.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !celName.MatchString(v.Name) || slices.Contains(celWords, v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		switch {
		case strings.TrimSpace(v.Expression) == "":
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
		case c.composed == nil:
			errs = append(errs, field.InternalError(at, errors.New("variable composition is not allowed")))
		default:
			e := &expression{name: v.Name, text: v.Expression, types: []*celgo.Type{celgo.AnyType, celgo.DynType}}
			vars := celplugin.OptionalVariableDeclarations{HasParams: c.params, HasAuthorizer: true}
			if r := c.composed.CompileAndStoreVariable(e, vars, environment.NewExpressions); r.Error != nil {
				errs = append(errs, compileError(at.Child("expression"), v.Expression, r.Error))
			}
		}
	}
	return errs
}

func (c *compiler) validation(v *admissionregistrationv1.Validation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, c.check(v.Expression, at.Child("expression"), true, celgo.BoolType)...)
	}
	switch text := strings.TrimSpace(v.MessageExpression); {
	case v.MessageExpression != "" && text == "":
		errs = append(errs, field.Invalid(at.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	case text != "":
		errs = append(errs, c.check(v.MessageExpression, at.Child("messageExpression"), false, celgo.StringType)...)
	}
	switch text := strings.TrimSpace(v.Message); {
	case v.Message != "" && text == "":
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(text, "\n\r"):
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, valid.OneOf(v.Reason, at.Child("reason"), string(metav1.StatusReasonForbidden), string(metav1.StatusReasonInvalid),
		string(metav1.StatusReasonRequestEntityTooLarge))...)
}

// Bounds of the annotations that a policy adds to the audit log.
const (
	maxAuditAnnotations     = 20
	maxAnnotationExpression = 5 * 1024
)

func (c *compiler) annotations(policy string, list []admissionregistrationv1.AuditAnnotation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(at, list, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	seen := map[string]bool{}
	for i, a := range list {
		at := at.Index(i)
		if policy == "" {
			errs = append(errs, field.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, valid.QualifiedName(policy+"/"+a.Key, at.Child("key"))...)
		}
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			errs = append(errs, field.Required(at.Child("valueExpression"), "valueExpression is not specified"))
		case len(text) > maxAnnotationExpression:
			errs = append(errs, field.Required(at.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression)))
		default:
			errs = append(errs, c.check(text, at.Child("valueExpression"), true, celgo.StringType, celgo.NullType)...)
		}
		if seen[a.Key] {
			errs = append(errs, field.Duplicate(at.Child("key"), a.Key))
		}
		seen[a.Key] = true
	}
	return errs
}

// The types of what mutations evaluate to.
var (
	patchObject = celtypes.NewObjectType("Object")
	patchList   = celgo.ListType(celtypes.NewObjectType("JSONPatch"))
)

func (c *compiler) mutation(m *admissionregistrationv1.Mutation, at *field.Path) field.ErrorList {
	vars := celplugin.OptionalVariableDeclarations{HasParams: c.params, HasAuthorizer: true, HasPatchTypes: true}
	var errs field.ErrorList
	text := func(name, s string, typ *celgo.Type) {
		if s = strings.TrimSpace(s); s == "" {
			errs = append(errs, field.Required(at.Child(name, "expression"), ""))
			return
		}
		errs = append(errs, c.compile(s, at.Child(name, "expression"), vars, typ)...)
	}
	switch m.PatchType {
	case "":
		errs = append(errs, field.Required(at.Child("patchType"), ""))
	case admissionregistrationv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(at.Child("jsonPatch"), "must be specified when patchType is JSONPatch"))
		} else {
			text("jsonPatch", m.JSONPatch.Expression, patchList)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(at.Child("applyConfiguration"), "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(at.Child("applyConfiguration"), "must be specified when patchType is ApplyConfiguration"))
		} else {
			text("applyConfiguration", m.ApplyConfiguration.Expression, patchObject)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(at.Child("jsonPatch"), "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("patchType"), m.PatchType, []string{"ApplyConfiguration", "JSONPatch"}))
	}
	return errs
}
