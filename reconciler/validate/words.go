package validate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// notChecked says whether an error is no mistake but that of rules that were
// not asked, because the schema was not satisfied.
func notChecked(err *field.Error) bool {
	return strings.Contains(err.Detail, "some validation rules were not checked")
}

// fieldOf is the field that an error is about; "" is the whole object.
func fieldOf(err *field.Error) string {
	f := strings.Trim(err.Field, "<>")
	if f == "nil" || f == "[]" {
		return ""
	}
	return f
}

// sentence says an error of a schema with its field, in the words that findings
// about built-in kinds have.
func sentence(err *field.Error) string {
	text := words(err)
	if f := fieldOf(err); f != "" {
		return f + ": " + text
	}
	return text
}

var ofType = regexp.MustCompile(`must be of type (\w+)(?:: "(\w+)")?`)

// types are the types of JSON schemas as people call them.
var types = map[string]string{"object": "a map", "array": "a list", "string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "null"}

func words(err *field.Error) string {
	detail := strings.TrimPrefix(err.Detail, err.Field+" in body ")
	if _, rest, ok := strings.Cut(detail, " in body "); ok && !strings.Contains(detail[:len(detail)-len(rest)], ";") {
		detail = rest
	}
	switch err.Type {
	case field.ErrorTypeRequired:
		if detail == "" {
			return "is required"
		}
	case field.ErrorTypeTypeInvalid:
		if m := ofType.FindStringSubmatch(detail); m != nil && types[m[1]] != "" {
			text := "must be " + types[m[1]]
			if is := types[m[2]]; is != "" {
				text += ", is " + is
			}
			return text
		}
	case field.ErrorTypeNotSupported:
		if list, ok := strings.CutPrefix(detail, "supported values: "); ok {
			text := "must be " + list
			if strings.Contains(list, ", ") {
				text = "must be one of " + list
			}
			return text + ", is " + value(err.BadValue)
		}
	case field.ErrorTypeTooLong, field.ErrorTypeTooMany:
		if detail == "" {
			return "is longer than it may be"
		}
		return "is longer than it may be: " + detail
	case field.ErrorTypeDuplicate:
		return "is there twice: " + value(err.BadValue)
	}
	if detail == "" {
		return fmt.Sprintf("%s: %s", err.Type, value(err.BadValue))
	}
	if err.Type == field.ErrorTypeInvalid {
		return detail + is(detail, err.BadValue)
	}
	return detail
}

// is adds the value to what is wrong with it, where that is short and not there
// yet.
func is(detail string, bad any) string {
	switch v := reflect.ValueOf(bad); v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return is(detail, v.Elem().Interface())
	default:
		return ""
	}
	text := value(bad)
	if len(text) > 80 || text == `""` || strings.Contains(detail, strings.Trim(text, `"`)) {
		return ""
	}
	return ", is " + text
}

// value is a value in a message, no longer than a line.
func value(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%.200s", strconv.Quote(s))
	}
	data, _ := json.Marshal(v)
	return fmt.Sprintf("%.200s", data)
}
