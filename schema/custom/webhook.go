package custom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// askWebhook converts objects by one ConversionReview. Errors have upstream's
// texts, which name the kind of the first object.
func (d *definition) askWebhook(ctx context.Context, in []*unstructured.Unstructured, target *Version, versions []string) ([]*unstructured.Unstructured, error) {
	uid := uuid.NewUUID()
	review, v1, err := newReview(in, target.apiVersion, uid, versions)
	if err != nil {
		return nil, err
	}
	answer, err := d.post(ctx, review)
	if err != nil {
		return nil, errorOf(in, err)
	}
	raw, err := readAnswer(answer, uid, v1)
	if err != nil {
		return nil, errorOf(in, err)
	}
	gvk := in[0].GroupVersionKind()
	if len(raw) != len(in) {
		return nil, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", gvk, len(raw), len(in))
	}
	out := make([]*unstructured.Unstructured, len(in))
	for i := range raw {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw[i].Raw); err != nil {
			return nil, fmt.Errorf("conversion webhook for %v returned invalid converted object at index %v: %w", gvk, i, err)
		}
		if err := d.accept(in[i], u, target.apiVersion); err != nil {
			return nil, fmt.Errorf("conversion webhook for %v returned invalid converted object at index %v: %w", gvk, i, err)
		}
		if err := restoreMeta(in[i], u); err != nil {
			return nil, fmt.Errorf("conversion webhook for %v returned invalid metadata in object at index %v: %w", gvk, i, err)
		}
		out[i] = u
	}
	return out, nil
}

func errorOf(in []*unstructured.Unstructured, err error) error {
	return fmt.Errorf("conversion webhook for %v failed: %w", in[0].GroupVersionKind(), err)
}

// newReview is the request in the first version of ConversionReview that both
// sides know.
func newReview(in []*unstructured.Unstructured, apiVersion string, uid types.UID, versions []string) (review []byte, v1 bool, err error) {
	for _, v := range versions {
		if v != "v1" && v != "v1beta1" {
			continue
		}
		r := apiextensionsv1.ConversionReview{
			TypeMeta: metav1.TypeMeta{Kind: "ConversionReview", APIVersion: "apiextensions.k8s.io/" + v},
			Request:  &apiextensionsv1.ConversionRequest{UID: uid, DesiredAPIVersion: apiVersion},
		}
		for _, u := range in {
			r.Request.Objects = append(r.Request.Objects, runtime.RawExtension{Object: u})
		}
		if review, err = json.Marshal(r); err != nil { // one form for both versions
			return nil, false, fmt.Errorf("write conversion review: %w", err)
		}
		return review, v == "v1", nil
	}
	return nil, false, errors.New("no supported conversion review versions")
}

// readAnswer returns the objects of an answer. v1beta1 does not demand that the
// answer names its kind and the request.
func readAnswer(answer []byte, uid types.UID, v1 bool) ([]runtime.RawExtension, error) {
	var r apiextensionsv1.ConversionReview
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview")
	if v1 && r.GroupVersionKind() != want {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want.String(), r.GroupVersionKind().String())
	}
	switch {
	case r.Response == nil:
		return nil, errors.New("no response provided")
	case v1 && r.Response.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.Response.UID)
	case r.Response.Result.Status != metav1.StatusSuccess && r.Response.Result.Message != "":
		return nil, errors.New(r.Response.Result.Message)
	case r.Response.Result.Status != metav1.StatusSuccess:
		return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", r.Response.Result.Status)
	}
	return r.Response.ConvertedObjects, nil
}

// accept checks that a converted object is the one that was sent.
func (d *definition) accept(in, out *unstructured.Unstructured, apiVersion string) error {
	if out.GetAPIVersion() != apiVersion {
		return fmt.Errorf("invalid groupVersion (expected %v, received %v)", apiVersion, out.GetAPIVersion())
	}
	if in.GetKind() != out.GetKind() {
		return fmt.Errorf("invalid kind (expected %v, received %v)", in.GetKind(), out.GetKind())
	}
	for _, f := range []struct{ name, in, out string }{
		{"name", in.GetName(), out.GetName()},
		{"namespace", in.GetNamespace(), out.GetNamespace()},
		{"UID", string(in.GetUID()), string(out.GetUID())},
	} {
		if f.in != f.out {
			return fmt.Errorf("must have the same %s: %v != %v", f.name, f.in, f.out)
		}
	}
	return nil
}

// restoreMeta gives a converted object the metadata that it had before, but for
// labels and annotations, which a webhook may change.
func restoreMeta(in, out *unstructured.Unstructured) error {
	x, ok := out.Object["metadata"]
	if !ok {
		return errors.New("missing metadata in converted object")
	}
	answered, ok := x.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", x)
	}
	meta := map[string]any{}
	if x, ok := in.Object["metadata"]; ok {
		if meta, ok = runtime.DeepCopyJSONValue(x).(map[string]any); !ok {
			return fmt.Errorf("invalid metadata of type %T in input object", x)
		}
	}
	for _, name := range []string{"labels", "annotations"} {
		if err := restoreStrings(meta, answered, name); err != nil {
			return err
		}
	}
	out.Object["metadata"] = meta
	return nil
}

// restoreStrings takes over labels or annotations, checking them if they have
// changed.
func restoreStrings(meta, answered map[string]any, name string) error {
	x, ok := answered[name]
	if !ok || x == nil {
		delete(meta, name)
		return nil
	}
	fresh, ok := x.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, x)
	}
	was, ok := meta[name].(map[string]any)
	if !ok && meta[name] != nil {
		return fmt.Errorf("invalid metadata.%s of type %T in original object", name, meta[name])
	}
	changed := len(was) != len(fresh)
	texts := make(map[string]string, len(fresh))
	for k, x := range fresh {
		s, ok := x.(string)
		if !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, k, x)
		}
		texts[k] = s
		changed = changed || was[k] != x
	}
	if changed {
		check := func() field.ErrorList {
			return metav1validation.ValidateLabels(texts, field.NewPath("metadata", "labels"))
		}
		if name == "annotations" {
			check = func() field.ErrorList {
				return apivalidation.ValidateAnnotations(texts, field.NewPath("metadata", "annotation"))
			}
		}
		if errs := check(); len(errs) > 0 {
			return errs.ToAggregate()
		}
	}
	meta[name] = fresh
	return nil
}
