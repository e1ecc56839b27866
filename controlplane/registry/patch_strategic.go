package registry

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"github.com/writ-os/writ/schema"
)

// mergeStrategic applies a strategic merge patch: lists merge by the keys that
// the tags of the Go type name.
func mergeStrategic(ctx context.Context, r *schema.Resource, shown schema.Object, data []byte, validation string) (schema.Object, error) {
	out := r.New()
	if _, ok := out.(interface{ Unmarshal([]byte) error }); !ok {
		return nil, unsupportedPatch() // kinds of our own have no merge tags, as custom resources
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(shown)
	if err != nil {
		return nil, fmt.Errorf("read %v %v: %w", r, schema.KeyOf(shown), err)
	}
	patch, problems, err := readStrategic(data, strictly(validation))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	after, err := strategicpatch.StrategicMergeMapPatch(before, patch, r.New())
	if err != nil {
		return nil, strategicError(err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, out, strictly(validation))
	if err := reportPatched(ctx, r, fmt.Sprintf("%+v", patch), problems, err, validation); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(r.GVK())
	return out, nil
}

func readStrategic(data []byte, strict bool) (patch map[string]any, problems []error, err error) {
	patch = map[string]any{}
	if strict {
		problems, err = kjson.UnmarshalStrict(data, &patch)
		return patch, problems, err
	}
	return patch, nil, kjson.UnmarshalCaseSensitivePreserveInts(data, &patch)
}

// strategicError says with what code a patch is refused. Other errors are
// upstream's internal ones.
func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return unprocessable(err)
	}
	return err
}
