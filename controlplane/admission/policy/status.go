package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// StatusName is the name of the controller, and its field manager.
const StatusName = "validatingadmissionpolicy-status-controller"

// StatusConfig is what the controller needs from outside.
type StatusConfig struct {
	Cache   client.Cache
	Client  client.Writer
	Catalog *schema.Live
	// Schemas are those that expressions are checked against. nil: none, and
	// no warnings.
	Schemas Schemas
	Log     *slog.Logger
}

// Status tells in the status of ValidatingAdmissionPolicies which of their
// expressions cannot work. It is woken by them and owns their status.
type Status struct{ cfg StatusConfig }

var _ controller.Reconciler = (*Status)(nil)

// NewStatus returns the controller; it starts nothing.
func NewStatus(cfg StatusConfig) *Status {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Status{cfg: cfg}
}

// Watches are the resources that wake it; none where the resource table has no
// policies.
func (*Status) Watches() []controller.Watch {
	r := schema.ByGVK(kind("ValidatingAdmissionPolicy"))
	if r == nil {
		return nil
	}
	return []controller.Watch{{Resource: r}}
}

// Reconcile implements controller.Reconciler.
func (s *Status) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	r := schema.ByGVK(kind("ValidatingAdmissionPolicy"))
	if r == nil {
		return controller.Result{}, nil
	}
	o, ok := s.cfg.Cache.Get(r, key)
	p, isPolicy := o.(*admissionv1.ValidatingAdmissionPolicy)
	if !ok || !isPolicy || p.Generation <= p.Status.ObservedGeneration {
		return controller.Result{}, nil
	}
	c := &checker{catalog: s.cfg.Catalog.Load(), schemas: s.cfg.Schemas}
	data, err := statusPatch(p, c.check(p))
	if err != nil {
		return controller.Result{}, controller.Terminal(err)
	}
	_, err = s.cfg.Client.Patch(ctx, r, key, types.ApplyPatchType, data, client.WriteOptions{Subresource: "status", FieldManager: StatusName, Force: true})
	if err != nil {
		return controller.Result{}, fmt.Errorf("apply status of policy %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// statusPatch declares the generation and the warnings.
func statusPatch(p *admissionv1.ValidatingAdmissionPolicy, warnings []admissionv1.ExpressionWarning) ([]byte, error) {
	type object struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string                           `json:"metadata"`
		Status          admissionv1.ValidatingAdmissionPolicyStatus `json:"status"`
	}
	return json.Marshal(object{
		metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"},
		map[string]string{"name": p.Name},
		admissionv1.ValidatingAdmissionPolicyStatus{
			ObservedGeneration: p.Generation, TypeChecking: &admissionv1.TypeChecking{ExpressionWarnings: warnings},
		},
	})
}
