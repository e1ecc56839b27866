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
	o, err := patched(ctx, r, shown, t, data, w.FieldValidation)
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

// patched applies a patch to an object as the requested version shows it.
func patched(ctx context.Context, r *schema.Resource, shown schema.Object, t types.PatchType, data []byte, validation string) (schema.Object, error) {
	if t == types.StrategicMergePatchType {
		return mergeStrategic(ctx, r, shown, data, validation)
	}
	before, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("encode %v %v: %w", r, schema.KeyOf(shown), err)
	}
	after, problems, err := patchJSON(t, before, data, strictly(validation))
	if err != nil {
		return nil, err
	}
	return decodePatched(ctx, r, after, problems, validation)
}

func strictly(validation string) bool {
	return validation == metav1.FieldValidationStrict || validation == metav1.FieldValidationWarn
}

// patchJSON applies a patch to an object in JSON. It returns the duplicate and
// unknown fields of the patch itself apart.
func patchJSON(t types.PatchType, before, patch []byte, strict bool) (after []byte, problems []error, err error) {
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
			// The text names the type that upstream reads a patch into.
			text := strings.ReplaceAll(err.Error(), "registry.jsonPatchOp", "handlers.jsonPatchOp")
			return nil, nil, apierrors.NewBadRequest("error decoding patch: " + text)
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
	after, err = patchOps(ops, before)
	if err != nil {
		return nil, nil, unprocessable(err)
	}
	return after, problems, nil
}

// maxCopied is how much the "copy" operations of one JSON patch may add, in
// bytes: each can double the object (upstream's JSONPatchMaxCopyBytes).
const maxCopied = 3 << 20

func init() { jsonpatch.AccumulatedCopySizeLimit = maxCopied }

// patchOps applies what a client has sent. The library panics at some of it: at
// a test of the whole document that names no value, for one.
func patchOps(ops jsonpatch.Patch, before []byte) (after []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the JSON patch does not apply: an operation lacks what it needs: %v", p)
		}
	}()
	return ops.Apply(before)
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
	o, err := decodeJSON(r, data, strictly(validation))
	if err != nil && r.Custom == nil {
		err = kindError(r, data, err)
	}
	if err := reportPatched(ctx, r, string(data), problems, err, validation); err != nil {
		return nil, err
	}
	return o, nil
}

// kindError says in upstream's words that a patch has made another kind of an
// object: there, decoding ends in a conversion.
func kindError(r *schema.Resource, data []byte, err error) error {
	var m metav1.TypeMeta
	if json.Unmarshal(data, &m) != nil || m.Kind == r.Kind && m.APIVersion == r.APIVersion() {
		return err
	}
	gvk := m.GroupVersionKind()
	if !schema.Scheme.Recognizes(gvk) {
		return runtime.NewNotRegisteredErrForKind("pkg/api/legacyscheme/scheme.go:30", gvk)
	}
	internal, _, _ := strings.Cut(r.Group, ".")
	if internal == "" {
		internal = "core"
	}
	return fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", gvk.Version, gvk.Kind, internal, r.Kind)
}

// reportPatched says what is wrong with a patched object: err is why it cannot
// be read, or what it has too much. data is shown with it.
func reportPatched(ctx context.Context, r *schema.Resource, data string, problems []error, err error, validation string) error {
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
	if err == nil {
		return nil
	}
	return apierrors.NewInvalid(kschema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), data, strings.TrimPrefix(err.Error(), "decode "+r.Kind+": ")),
	})
}
