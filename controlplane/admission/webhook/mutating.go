package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Mutating is the plugin MutatingAdmissionWebhook: one webhook after the
// other, each sees what those before it have made of the object.
type Mutating struct{ plugin }

// mutatingName is that of the plugin in --enable-admission-plugins.
const mutatingName = "MutatingAdmissionWebhook"

// Validate implements registry.Admission.
func (*Mutating) Validate(context.Context, *registry.Attributes) error { return nil }

// Mutate implements registry.Admission.
func (m *Mutating) Mutate(ctx context.Context, a *registry.Attributes) error {
	hooks := m.hooks.Load()
	if len(hooks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	pass := request.PassFrom(ctx)
	again := request.State(pass, mutatingName, request.NewReinvocation)
	r := request.New(a, m.cfg.Catalog)
	if pass.Second() {
		again.Begin(r.GetObject())
	}
	defer func() { again.End(object(a)) }()
	for i, h := range hooks {
		c, err := m.wanted(ctx, h, r)
		if err != nil {
			return err
		}
		if c == nil || pass.Second() && !again.Due(h.id) {
			continue
		}
		changed, err := m.mutate(ctx, c, r, i, pass.Second())
		if err != nil {
			return err
		}
		if changed {
			again.Change()
			pass.Again()
			r = request.New(a, m.cfg.Catalog)
		}
		if h.reinvoke {
			again.Willing(h.id)
		}
	}
	return nil
}

func object(a *registry.Attributes) runtime.Object {
	if a.Object == nil {
		return nil
	}
	return a.Object
}

// mutate asks one webhook and takes over what it changes.
func (m *Mutating) mutate(ctx context.Context, c *call, r *request.Request, index int, second bool) (bool, error) {
	round := 0
	if second {
		round = 1
	}
	place := fmt.Sprintf("round_%d_index_%d", round, index)
	attrs, err := r.As(ctx, c.Kind)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	began := time.Now()
	a, err := m.ask(ctx, c, r, attrs)
	var next schema.Object
	if a != nil {
		for k, text := range a.audit {
			audit.AddAuditAnnotation(ctx, c.Name+"/"+k, text)
		}
		for _, w := range a.warnings {
			warning.AddWarning(ctx, "", w)
		}
		if err == nil {
			next, err = patched(c, attrs, a.patch)
		}
	}
	failed := err != nil
	if err := m.settle(ctx, c, r, err, time.Since(began)); err != nil {
		return false, err
	}
	if failed {
		audit.AddAuditAnnotation(ctx, "failed-open.mutation.webhook.admission.k8s.io/"+place, c.Name)
		return false, timedOut(ctx)
	}
	changed := next != nil && !apiequality.Semantic.DeepEqual(attrs.VersionedObject, next)
	m.annotate(ctx, c, place, changed, a.patch)
	if next == nil {
		return false, nil
	}
	if err := r.Changed(ctx, next); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return changed, nil
}

// patched applies a patch to the object as the webhook has seen it; nil where
// there is none.
func patched(c *call, attrs *admission.VersionedAttributes, patch []byte) (schema.Object, error) {
	if len(patch) == 0 {
		return nil, nil
	}
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, &failure{c.Name, fmt.Errorf("received undecodable patch in webhook response: %w", err), 503}
	}
	if len(ops) == 0 {
		return nil, nil
	}
	old, ok := attrs.VersionedObject.(schema.Object)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", c.Name))
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	after, err := apply(ops, before)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	next, err := request.Decode(old, after)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	keep(old, next)
	request.Default(next)
	return next, nil
}

// maxCopies bounds the "copy" operations of one patch: each can double the
// object, and each is applied on its own to see what it has grown to.
const maxCopies = 100

// maxObject bounds what a patch may make of an object, in bytes: what the API
// takes in one request.
const maxObject = 3 << 20

// apply applies a patch, whatever it holds, in bounded memory.
func apply(ops jsonpatch.Patch, doc []byte) (out []byte, err error) {
	defer func() {
		// The library indexes what it is told to; what it is told comes from afar.
		if p := recover(); p != nil {
			err = fmt.Errorf("apply patch: %v", p)
		}
	}()
	copies := 0
	for len(ops) > 0 {
		n := 0
		for n < len(ops) && ops[n].Kind() != "copy" {
			n++
		}
		if n < len(ops) {
			n++
			copies++
		}
		if copies > maxCopies {
			return nil, fmt.Errorf("apply patch: more than %d copy operations", maxCopies)
		}
		if doc, err = ops[:n].Apply(doc); err != nil {
			return nil, err
		}
		if len(doc) > maxObject {
			return nil, fmt.Errorf("apply patch: the object grows to more than %d bytes", maxObject)
		}
		ops = ops[n:]
	}
	return doc, nil
}

// keep holds on to the kind, and to the record of field owners where a patch
// has dropped all of it: nobody would own anything any more.
func keep(old, next schema.Object) {
	next.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	if len(next.GetManagedFields()) == 0 && len(old.GetManagedFields()) > 0 {
		next.SetManagedFields(old.GetManagedFields())
	}
}

// annotate tells the audit log what a webhook did.
func (m *Mutating) annotate(ctx context.Context, c *call, place string, changed bool, patch []byte) {
	ac := audit.AuditContextFrom(ctx)
	if !ac.Enabled() {
		return
	}
	said, err := json.Marshal(struct {
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}{c.configuration, c.Name, changed})
	if err == nil {
		audit.AddAuditAnnotation(ctx, "mutation.webhook.admission.k8s.io/"+place, string(said))
	}
	// The patch holds what the request body holds, and is for the same eyes.
	if len(patch) == 0 || ac.GetEventLevel().Less(auditinternal.LevelRequest) {
		return
	}
	said, err = json.Marshal(struct {
		Configuration string          `json:"configuration"`
		Webhook       string          `json:"webhook"`
		Patch         json.RawMessage `json:"patch,omitempty"`
		PatchType     string          `json:"patchType,omitempty"`
	}{c.configuration, c.Name, patch, "JSONPatch"})
	if err == nil {
		audit.AddAuditAnnotation(ctx, "patch.webhook.admission.k8s.io/"+place, string(said))
	}
}
