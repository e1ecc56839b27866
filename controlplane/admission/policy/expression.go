package policy

import (
	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// expression is one CEL expression and what it may return.
type expression struct {
	text  string
	types []*celgo.Type
	// name is that of a variable.
	name string
	// validation or annotation is where it comes from.
	validation *admissionv1.Validation
	annotation *admissionv1.AuditAnnotation
}

// GetExpression implements cel.ExpressionAccessor.
func (e *expression) GetExpression() string { return e.text }

// ReturnTypes implements cel.ExpressionAccessor.
func (e *expression) ReturnTypes() []*celgo.Type { return e.types }

// GetName implements cel.NamedExpressionAccessor.
func (e *expression) GetName() string { return e.name }

func validations(list []admissionv1.Validation) []celplugin.ExpressionAccessor {
	out := make([]celplugin.ExpressionAccessor, len(list))
	for i := range list {
		out[i] = &expression{text: list[i].Expression, types: []*celgo.Type{celgo.BoolType}, validation: &list[i]}
	}
	return out
}

// messages are the expressions of messages, nil for a validation without.
func messages(list []admissionv1.Validation) []celplugin.ExpressionAccessor {
	out := make([]celplugin.ExpressionAccessor, len(list))
	for i := range list {
		if text := list[i].MessageExpression; text != "" {
			out[i] = &expression{text: text, types: []*celgo.Type{celgo.StringType}}
		}
	}
	return out
}

func annotations(list []admissionv1.AuditAnnotation) []celplugin.ExpressionAccessor {
	out := make([]celplugin.ExpressionAccessor, len(list))
	for i := range list {
		out[i] = &expression{text: list[i].ValueExpression, types: []*celgo.Type{celgo.StringType, celgo.NullType}, annotation: &list[i]}
	}
	return out
}

func variables(list []admissionv1.Variable) []celplugin.NamedExpressionAccessor {
	out := make([]celplugin.NamedExpressionAccessor, len(list))
	for i, v := range list {
		out[i] = &expression{text: v.Expression, types: []*celgo.Type{celgo.AnyType, celgo.DynType}, name: v.Name}
	}
	return out
}

// conditions compiles match conditions; nil without.
func conditions(c *celplugin.CompositedCompiler, list []admissionv1.MatchCondition, options celplugin.OptionalVariableDeclarations, failure *admissionv1.FailurePolicyType, name string) matchconditions.Matcher {
	if len(list) == 0 {
		return nil
	}
	out := make([]celplugin.ExpressionAccessor, len(list))
	for i := range list {
		out[i] = (*matchconditions.MatchCondition)(&list[i])
	}
	return matchconditions.NewMatcher(c.CompileCondition(out, options, environment.StoredExpressions), failure, "policy", "validate", name)
}
