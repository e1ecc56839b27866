package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	reviewv1 "k8s.io/api/admission/v1"
	reviewv1beta1 "k8s.io/api/admission/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/writ-os/writ/controlplane/admission/request"
)

// maxWarnings bounds how many warnings one answer may add.
const maxWarnings = 50

// answer is what a webhook said, whichever version it speaks.
type answer struct {
	allowed  bool
	result   *metav1.Status
	patch    []byte
	audit    map[string]string
	warnings []string
}

// ask calls one webhook. Its error is a *failure, a *refusal, or one of our own.
func (p *plugin) ask(ctx context.Context, c *call, r *request.Request, attrs *admission.VersionedAttributes) (*answer, error) {
	fail := func(reason error, code int32) error { return &failure{c.Name, reason, code} }
	if r.IsDryRun() && !c.sideEffectFree() {
		if c.SideEffects == nil {
			return nil, fail(errors.New("Webhook SideEffects is nil"), 400) //nolint:staticcheck // upstream's text
		}
		return nil, webhookerrors.NewDryRunUnsupportedErr(c.Name)
	}
	uid := uuid.NewUUID()
	body, version, err := encode(uid, c, r, attrs)
	if err != nil {
		return nil, fail(fmt.Errorf("could not create admission objects: %w", err), 400)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	data, err := p.clients.post(ctx, &c.ClientConfig, body)
	if err != nil {
		code := int32(503)
		var status *apierrors.StatusError
		if errors.As(err, &status) {
			code = status.ErrStatus.Code
		}
		return nil, fail(fmt.Errorf("failed to call webhook: %w", err), code)
	}
	a, err := decode(data, version, uid, c.kind == "admit")
	if err != nil {
		return nil, fail(err, 503)
	}
	if !a.allowed {
		return a, &refusal{webhookerrors.ToStatusErr(c.Name, a.result)}
	}
	return a, nil
}

// encode makes the review in the first version that the webhook and we speak.
func encode(uid types.UID, c *call, r *request.Request, attrs *admission.VersionedAttributes) ([]byte, string, error) {
	for _, version := range c.AdmissionReviewVersions {
		if version != "v1" && version != "v1beta1" {
			continue
		}
		// v1 and v1beta1 are the same on the wire but for the apiVersion.
		review := reviewv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/" + version, Kind: "AdmissionReview"},
			Request:  celplugin.CreateAdmissionRequest(attrs.Attributes, metav1.GroupVersionResource(c.Resource), metav1.GroupVersionKind(c.Kind)),
		}
		review.Request.UID = uid
		review.Request.Object = runtime.RawExtension{Object: attrs.VersionedObject}
		review.Request.OldObject = runtime.RawExtension{Object: attrs.VersionedOldObject}
		body, err := json.Marshal(review)
		return body, version, err
	}
	return nil, "", errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// decode reads an answer and checks that it is one to the question.
func decode(data []byte, version string, uid types.UID, mutating bool) (*answer, error) {
	var review reviewv1.AdmissionReview
	if err := json.Unmarshal(data, &review); err != nil {
		return nil, fmt.Errorf("failed to call webhook: couldn't get version/kind; json parse error: %w", err)
	}
	r := review.Response
	if version == "v1beta1" {
		var beta reviewv1beta1.AdmissionReview
		if err := json.Unmarshal(data, &beta); err == nil && beta.Response != nil && len(beta.Response.Patch) > 0 && r != nil && r.PatchType == nil {
			t := reviewv1.PatchTypeJSONPatch // the only one there ever was
			r.PatchType = &t
		}
	}
	if err := check(&review, version, uid, mutating); err != nil {
		return nil, fmt.Errorf("received invalid webhook response: %w", err)
	}
	a := &answer{allowed: r.Allowed, result: r.Result, audit: r.AuditAnnotations, warnings: r.Warnings}
	if len(a.warnings) > maxWarnings {
		a.warnings = a.warnings[:maxWarnings]
	}
	if mutating && len(r.Patch) > 0 {
		if *r.PatchType != reviewv1.PatchTypeJSONPatch {
			return nil, fmt.Errorf("unsupported patch type %q", *r.PatchType)
		}
		a.patch = r.Patch
	}
	return a, nil
}

// check says what is wrong with an answer, in upstream's words.
func check(review *reviewv1.AdmissionReview, version string, uid types.UID, mutating bool) error {
	r := review.Response
	if r == nil {
		return errors.New("webhook response was absent")
	}
	if version == "v1beta1" {
		return nil // was never checked
	}
	want := reviewv1.SchemeGroupVersion.WithKind("AdmissionReview")
	switch {
	case r.UID != uid:
		return fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	case review.GroupVersionKind() != want:
		return fmt.Errorf("expected webhook response of %v, got %v", want, review.GroupVersionKind())
	case !mutating && len(r.Patch) > 0:
		return errors.New("validating webhook may not return response.patch")
	case !mutating && r.PatchType != nil:
		return errors.New("validating webhook may not return response.patchType")
	case !mutating:
		return nil
	case len(r.Patch) > 0 && r.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	}
	return nil
}
