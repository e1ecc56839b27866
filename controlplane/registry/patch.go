package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	kjson "sigs.k8s.io/json"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// maxPatchOps bounds a JSON patch, as upstream does.
const maxPatchOps = 10000

// Patch implements client.Writer.
func (g *Registry) Patch(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (schema.Object, error) {
	o, _, err := g.PatchOrCreate(ctx, r, key, t, data, w)
	return o, err
}

// PatchOrCreate is Patch that also says whether an apply has created the
// object, as the HTTP status does.
func (g *Registry) PatchOrCreate(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (o schema.Object, created bool, err error) {
	if w.Subresource == "scale" {
		o, err = g.patchScale(ctx, r, key, t, data, w)
		return o, false, err
	}
	if err := checkDoor(r, w.Subresource, key.Name); err != nil {
		return nil, false, err
	}
	o, err = g.one(ctx, r, w.DryRun, func(ov *overlay) (*entry, error) {
		if t == types.ApplyPatchType {
			e, isNew, err := g.applyPatch(ctx, ov, r, key, data, w)
			created = isNew
			return e, err
		}
		return g.patch(ctx, ov, r, key, t, data, w)
	})
	return o, created, err
}

// patch admits the patched state of an object over an overlay.
func (g *Registry) patch(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (*entry, error) {
	stored := ov.get(r, key)
	if stored == nil {
		return nil, notFound(r, key.Name)
	}
	shown, err := asked(ctx, r, stored)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("encode %v %v: %w", r, key, err)
	}
	after, problems, err := patchJSON(r.New(), t, before, data, w.FieldValidation)
	if err != nil {
		return nil, err
	}
	o, err := decodePatched(ctx, r, after, problems, w.FieldValidation)
	if err != nil {
		return nil, err
	}
	if err := checkKey(r, o, key); err != nil {
		return nil, err
	}
	old, err := current(ctx, ov, r, key)
	if err != nil {
		return nil, err
	}
	if o, err = intoWorking(ctx, r, o); err != nil {
		return nil, err
	}
	u := g.newWrite(ctx, ov, "update", r, w.Subresource, key, w)
	u.patch = true
	return u.update(ctx, o, old)
}

// patchJSON applies a patch to an object in JSON. of is the Go type, whose tags
// say how a strategic merge patch merges lists. It returns the duplicate and
// unknown fields of the patch itself apart.
func patchJSON(of schema.Object, t types.PatchType, before, patch []byte, validation string) (after []byte, problems []error, err error) {
	strict := validation == metav1.FieldValidationStrict || validation == metav1.FieldValidationWarn
	switch t {
	case types.JSONPatchType:
		return jsonPatch(before, patch, strict)
	case types.MergePatchType:
		if strict {
			if problems, err = kjson.UnmarshalStrict(patch, &map[string]any{}); err != nil {
				return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
			}
		}
		after, err = jsonpatch.MergePatch(before, patch)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			err = apierrors.NewBadRequest(err.Error())
		}
		return after, problems, err
	case types.StrategicMergePatchType:
		if _, ok := of.(interface{ Unmarshal([]byte) error }); !ok {
			break // kinds of our own have no merge tags, as custom resources
		}
		if strict {
			if problems, err = kjson.UnmarshalStrict(patch, &map[string]any{}); err != nil {
				return nil, nil, apierrors.NewBadRequest(err.Error())
			}
		}
		after, err = strategicpatch.StrategicMergePatch(before, patch, of)
		return after, problems, strategicError(err)
	}
	return nil, nil, unsupportedPatch()
}

// jsonPatchOp is one operation, to find unknown fields in it.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func jsonPatch(before, patch []byte, strict bool) (after []byte, problems []error, err error) {
	if strict {
		problems, err = kjson.UnmarshalStrict(patch, &[]jsonPatchOp{})
		if err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		for i, p := range problems {
			problems[i] = fmt.Errorf("json patch %w", p)
		}
	}
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > maxPatchOps {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOps, len(ops)))
	}
	after, err = ops.Apply(before)
	if err != nil {
		return nil, nil, unprocessable(err)
	}
	return after, problems, nil
}

func strategicError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	}
	return unprocessable(err)
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", kschema.GroupResource{}, "", err.Error(), 0, false)
}

func unsupportedPatch() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
	}}
}

// decodePatched reads the patched object and refuses or reports fields that the
// kind does not have.
func decodePatched(ctx context.Context, r *schema.Resource, data []byte, problems []error, validation string) (schema.Object, error) {
	o, err := decodeJSON(r, data, validation == metav1.FieldValidationStrict || validation == metav1.FieldValidationWarn)
	if unknown, ok := runtime.AsStrictDecodingError(err); ok {
		problems, err = append(problems, unknown.Errors()...), nil
	}
	if err == nil && len(problems) > 0 {
		if validation == metav1.FieldValidationWarn {
			for _, p := range problems {
				warning.AddWarning(ctx, "", p.Error())
			}
		} else {
			err = runtime.NewStrictDecodingError(problems)
		}
	}
	if err != nil {
		return nil, apierrors.NewInvalid(kschema.GroupKind{}, "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(data), strings.TrimPrefix(err.Error(), "decode "+r.Kind+": ")),
		})
	}
	return o, nil
}
