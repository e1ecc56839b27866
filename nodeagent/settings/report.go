package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const (
	fieldManager = "node-settings"
	// maxMessage bounds a message, in bytes.
	maxMessage = 1024
	tellTime   = 10 * time.Second
)

// condition is what there is to tell; the zero value is nothing.
type condition struct {
	status          corev1.ConditionStatus
	reason, message string
}

func conditionOf(w Wanted, problems []string) condition {
	switch {
	case len(problems) > 0:
		text := strings.Join(problems, "; ")
		if w.Pool != "" {
			text = "NodePool " + w.Pool + ": " + text
		}
		return condition{corev1.ConditionFalse, "NotApplied", strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")}
	case w.Nothing():
		return condition{corev1.ConditionTrue, "NoSettings", "no pool says anything of this node's settings"}
	}
	return condition{corev1.ConditionTrue, "Applied", "the settings of NodePool " + w.Pool + " are in force"}
}

// tell writes the condition, if it is news.
func (s *Settings) tell(ctx context.Context, n *corev1.Node, c condition) error {
	i := slices.IndexFunc(n.Status.Conditions, func(have corev1.NodeCondition) bool { return have.Type == v1alpha1.NodeSettingsApplied })
	if i < 0 && c.reason == "NoSettings" {
		return nil
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	next := corev1.NodeCondition{Type: v1alpha1.NodeSettingsApplied, Status: c.status, Reason: c.reason, Message: c.message, LastHeartbeatTime: now, LastTransitionTime: now}
	if i >= 0 {
		have := n.Status.Conditions[i]
		if have.Status == c.status && have.Reason == c.reason && have.Message == c.message {
			return nil
		}
		if have.Status == c.status {
			next.LastTransitionTime = have.LastTransitionTime
		}
	}
	if c != s.told && c.status == corev1.ConditionFalse {
		s.log.Warn("not all settings are in force", "node", s.cfg.NodeName, "why", c.message)
	}
	s.told = c
	b, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{next}}})
	if err != nil {
		return fmt.Errorf("encode condition: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	_, err = s.cfg.Client.Patch(ctx, schema.ResourceFor[*corev1.Node](), schema.Key{Name: n.Name}, types.StrategicMergePatchType, b,
		client.WriteOptions{Subresource: "status", FieldManager: fieldManager})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("report settings of node %s: %w", n.Name, err)
	}
	return nil
}
