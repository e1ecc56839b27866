package fairness

import (
	"context"
	"fmt"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// withCondition returns the schema with the condition, nil when it has it.
func withCondition(s *flowcontrolv1.FlowSchema, want flowcontrolv1.FlowSchemaCondition, now time.Time) *flowcontrolv1.FlowSchema {
	at := -1
	for i, c := range s.Status.Conditions {
		if c.Type == want.Type {
			at = i
		}
	}
	want.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	if at >= 0 {
		have := s.Status.Conditions[at]
		if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
			return nil
		}
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
	}
	s = s.DeepCopy()
	if at >= 0 {
		s.Status.Conditions[at] = want
	} else {
		s.Status.Conditions = append(s.Status.Conditions, want)
	}
	return s
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
		want := withCondition(s, dangling(s, known), time.Now())
		if want == nil {
			continue
		}
		if _, err := cfg.Client.Update(ctx, r, want, client.WriteOptions{Subresource: "status", FieldManager: "api-priority-and-fairness-config-consumer-v1"}); err != nil {
			cfg.Log.Debug("status of a FlowSchema was not written", "schema", s.Name, "err", err)
		}
	}
}
