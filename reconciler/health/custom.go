package health

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// phases are the words that custom resources use in status.phase where they
// have no conditions. A word that is not here says nothing.
var phases = map[string]Status{
	"failed": Degraded, "error": Degraded, "broken": Degraded, "degraded": Degraded, "unhealthy": Degraded, "lost": Degraded,
	"pending": Progressing, "creating": Progressing, "provisioning": Progressing, "initializing": Progressing, "starting": Progressing,
	"progressing": Progressing, "reconciling": Progressing, "updating": Progressing, "upgrading": Progressing, "scaling": Progressing,
	"installing": Progressing, "waiting": Progressing, "inprogress": Progressing, "notready": Progressing, "deleting": Progressing, "terminating": Progressing,
}

// condition is one of status.conditions of a custom resource.
type condition struct{ status, reason, message string }

func (c condition) isTrue() bool { return c.status == "True" }

// custom judges a custom resource by the conventions of kstatus: a generation
// that its controller has not seen is on its way; so is one that is
// Reconciling; Stalled is stuck for good, Failed and Degraded are stuck; then
// Ready decides, Available where there is no Ready, and the phase where there are
// neither. One that says nothing of itself is healthy.
func custom(u *unstructured.Unstructured) Health {
	status, _ := u.Object["status"].(map[string]any)
	if seen, ok, _ := unstructured.NestedInt64(status, "observedGeneration"); ok && seen < u.GetGeneration() {
		return progressing(notSeen)
	}
	conds, old := conditionsOf(status, u.GetGeneration())
	for _, kind := range []string{"Stalled", "Failed", "Degraded"} {
		if c, ok := conds[kind]; ok && c.isTrue() {
			h := degraded("%s%s", kind, why(c.reason, c.message))
			h.Stalled = kind == "Stalled"
			return h
		}
	}
	if c, ok := conds["Reconciling"]; ok && c.isTrue() {
		return progressing("is being reconciled%s", why(c.reason, c.message))
	}
	for _, kind := range []string{"Ready", "Available", "Succeeded"} {
		if c, ok := conds[kind]; ok {
			if c.isTrue() {
				return healthy()
			}
			return progressing("is not %s yet%s", strings.ToLower(kind), why(c.reason, c.message))
		}
	}
	if old {
		return progressing(notSeen)
	}
	return phase(status)
}

// phase judges by the word in status.phase, or status.state as some write.
func phase(status map[string]any) Health {
	word, _, _ := unstructured.NestedString(status, "phase")
	if word == "" {
		word, _, _ = unstructured.NestedString(status, "state")
	}
	message, _, _ := unstructured.NestedString(status, "message")
	if message == "" {
		message, _, _ = unstructured.NestedString(status, "reason")
	}
	switch phases[strings.ToLower(strings.ReplaceAll(word, " ", ""))] {
	case Degraded:
		return degraded("is %s%s", word, why("", message))
	case Progressing:
		return progressing("is %s%s", word, why("", message))
	}
	return healthy()
}

// conditionsOf reads status.conditions by type. Those that speak of an older
// generation are left out, and old says that there were some.
func conditionsOf(status map[string]any, generation int64) (out map[string]condition, old bool) {
	list, _ := status["conditions"].([]any)
	out = make(map[string]condition, len(list))
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		if seen, ok, _ := unstructured.NestedInt64(m, "observedGeneration"); ok && seen < generation {
			old = true
			continue
		}
		out[text("type")] = condition{cmp.Or(text("status"), "Unknown"), text("reason"), text("message")}
	}
	return out, old
}
