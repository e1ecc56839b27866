package fairness

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// dangling is the condition that a schema should have, with upstream's words.
func dangling(s *flowcontrolv1.FlowSchema, levels map[string]bool) flowcontrolv1.FlowSchemaCondition {
	name := s.Spec.PriorityLevelConfiguration.Name
	if levels[name] {
		return flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
			Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", name)}
	}
	return flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionTrue, Reason: "NotFound",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", name)}
}

// newer returns the condition that a schema lacks, with the time since when it
// holds; nil when it has it.
func newer(s *flowcontrolv1.FlowSchema, want flowcontrolv1.FlowSchemaCondition, now time.Time) *flowcontrolv1.FlowSchemaCondition {
	want.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	for _, have := range s.Status.Conditions {
		switch {
		case have.Type != want.Type:
			continue
		case have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message:
			return nil
		case have.Status == want.Status:
			want.LastTransitionTime = have.LastTransitionTime
		}
	}
	return &want
}

// applied is what the limiter declares of a schema's status.
func applied(s *flowcontrolv1.FlowSchema, c *flowcontrolv1.FlowSchemaCondition) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": flowcontrolv1.SchemeGroupVersion.String(), "kind": "FlowSchema",
		"metadata": map[string]any{"name": s.Name}, "status": map[string]any{"conditions": []any{c}},
	})
}

// report writes the conditions that have changed. One that fails is tried again
// with the next change.
func report(ctx context.Context, cfg Config, r *schema.Resource, schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	if cfg.Client == nil {
		return
	}
	known := map[string]bool{}
	for _, l := range levels {
		known[l.Name] = true
	}
	for _, s := range schemas {
		want := newer(s, dangling(s, known), time.Now())
		if want == nil {
			continue
		}
		data, err := applied(s, want)
		if err == nil {
			_, err = cfg.Client.Patch(ctx, r, schema.KeyOf(s), types.ApplyPatchType, data, client.WriteOptions{
				Subresource: "status", FieldManager: "api-priority-and-fairness-config-consumer-v1", Force: true})
		}
		if err != nil {
			cfg.Log.Debug("status of a FlowSchema was not written", "schema", s.Name, "err", err)
		}
	}
}
