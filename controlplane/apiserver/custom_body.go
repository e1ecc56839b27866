package apiserver

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
)

// decodeCustom reads a custom resource: fields that its schema does not know
// are dropped, and reported or refused as the client wishes. It has its
// defaults afterwards.
func decodeCustom(x *exchange, r *schema.Resource, m media, data []byte, validation string) (schema.Object, error) {
	strict := validation != metav1.FieldValidationIgnore
	content, problems, err := readContent(m, data, strict)
	if err == nil {
		err = checkCustomType(r, content, data)
	}
	if err != nil {
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			return nil, err
		}
		return nil, errDecode(r, m, data, err)
	}
	unknown, err := pruneBody(r.Custom, content)
	if err != nil {
		return nil, errDecode(r, m, data, err)
	}
	for _, path := range unknown {
		problems = append(problems, fmt.Errorf(`unknown field "%s"`, path))
	}
	if strict && len(problems) > 0 {
		if validation == metav1.FieldValidationStrict {
			return nil, errDecode(r, m, data, runtime.NewStrictDecodingError(problems))
		}
		addWarnings(x, problems)
	}
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(r.GVK())
	r.Custom.Default(o.Object)
	return o, nil
}

// bodyDecoder is a schema.Custom that tells metadata of the wrong type, which
// must not be stored, from fields that are not known.
type bodyDecoder interface {
	Decode(o map[string]any) (unknown []string, err error)
}

func pruneBody(c schema.Custom, content map[string]any) ([]string, error) {
	if d, ok := c.(bodyDecoder); ok {
		return d.Decode(content)
	}
	return c.Prune(content), nil
}

// readContent reads an object without a Go type, and what is wrong with it but
// can be read over.
func readContent(m media, data []byte, strict bool) (content map[string]any, problems []error, err error) {
	if m == mediaYAML {
		if strict {
			if _, err := yaml.YAMLToJSONStrict(data); err != nil {
				problems = append(problems, err)
			}
		}
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return nil, nil, err
		}
	}
	if !strict {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &content)
		return content, nil, err
	}
	more, err := kjson.UnmarshalStrict(data, &content)
	return content, append(problems, more...), err
}

// checkCustomType holds the apiVersion and kind of an object against the
// resource's.
func checkCustomType(r *schema.Resource, content map[string]any, data []byte) error {
	kind, _, kindErr := unstructured.NestedString(content, "kind")
	apiVersion, _, versionErr := unstructured.NestedString(content, "apiVersion")
	metaErr := checkMetadata(content)
	switch {
	case kindErr != nil:
		return kindErr
	case versionErr != nil:
		return versionErr
	case metaErr != nil:
		return metaErr
	case kind == "":
		return runtime.NewMissingKindErr(string(data))
	case apiVersion == "":
		return runtime.NewMissingVersionErr(string(data))
	case apiVersion != r.APIVersion():
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", apiVersion, r.APIVersion()))
	case kind != r.Kind:
		name, _, _ := unstructured.NestedString(content, "metadata", "name")
		return apierrors.NewInvalid(kschema.GroupKind{Group: r.Group, Kind: kind}, name, field.ErrorList{
			field.Invalid(field.NewPath("kind"), kind, "must be "+r.Kind),
		})
	}
	return nil
}

// checkMetadata finds metadata that is no object.
func checkMetadata(content map[string]any) error {
	meta, ok := content["metadata"]
	if !ok || meta == nil {
		return nil
	}
	if _, ok := meta.(map[string]any); !ok {
		return errors.New("metadata: Invalid value: must be an object")
	}
	return nil
}
