package resource

import (
	"errors"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// deviceSelectorErrors checks expressions about devices. Stored: they have been
// so before, and may use what a newer server has written.
func deviceSelectorErrors(all []resourcev1.DeviceSelector, stored bool, at *field.Path) field.ErrorList {
	return listErrors(all, resourcev1.DeviceSelectorsMaxSize, at, func(s *resourcev1.DeviceSelector, at *field.Path) field.ErrorList {
		at = at.Child("cel")
		if s.CEL == nil {
			return field.ErrorList{field.Required(at, "")}
		}
		return expressionErrors(s.CEL.Expression, stored, at.Child("expression"))
	}, nil)
}

// expressionErrors compiles an expression with upstream's compiler, which is
// made when the first one comes, and bounds what it may cost.
func expressionErrors(expression string, stored bool, at *field.Path) field.ErrorList {
	if len(expression) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(at, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	env := environment.NewExpressions
	if stored {
		env = environment.StoredExpressions
	}
	r := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true}).CompileCELExpression(expression, dracel.Options{EnvType: &env})
	switch {
	case r.Error != nil:
		return field.ErrorList{celError(r.Error, expression, at)}
	case r.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(at, "too complex, exceeds cost limit")}
	}
	return nil
}

func celError(err error, expression string, at *field.Path) *field.Error {
	var c *apiservercel.Error
	if !errors.As(err, &c) {
		return field.InternalError(at, fmt.Errorf("unsupported error type: %w", err))
	}
	switch c.Type {
	case apiservercel.ErrorTypeRequired:
		return field.Required(at, c.Detail)
	case apiservercel.ErrorTypeInvalid:
		return field.Invalid(at, expression, c.Detail)
	}
	return field.InternalError(at, c)
}
