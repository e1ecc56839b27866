package report

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Ready sets the Ready condition of a repository, and says whether it changed.
func Ready(s *v1alpha1.RepositoryStatus, ok bool, reason, message string, now time.Time) bool {
	return set(s, "Ready", ok, reason, message, now)
}

// Sandboxed sets the condition that says whether what the repository holds is
// evaluated in a child process with every layer that keeps it apart; lacks are those
// that the kernel of the server does not offer, with the reasons. It says whether
// the condition changed.
func Sandboxed(s *v1alpha1.RepositoryStatus, lacks []string, now time.Time) bool {
	if len(lacks) > 0 {
		return set(s, v1alpha1.RepositorySandboxed, false, "LayersMissing", strings.Join(lacks, "; "), now)
	}
	return set(s, v1alpha1.RepositorySandboxed, true, "Complete", "what the repository holds is evaluated apart: user, namespaces, Landlock, seccomp", now)
}

func set(s *v1alpha1.RepositoryStatus, kind string, ok bool, reason, message string, now time.Time) bool {
	want := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now)}
	if ok {
		want.Status = metav1.ConditionTrue
	}
	i := slices.IndexFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		s.Conditions = append(s.Conditions, want)
		return true
	}
	have := s.Conditions[i]
	if have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	s.Conditions[i] = want
	return have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
}

// Event is something that happened to an object, for `kubectl get events`.
// Events about cluster-scoped objects are in the namespace default.
func Event(o schema.Object, kind, reason, message string, now time.Time) *corev1.Event {
	ns := o.GetNamespace()
	if ns == "" {
		ns = metav1.NamespaceDefault
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	if len(message) > 1000 {
		message = message[:1000]
	}
	h := fnv.New32a() // two events of one moment have two names
	_, _ = h.Write([]byte(reason + message))
	return &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("%s.%x", o.GetName(), now.UnixNano()^int64(h.Sum32()))},
		InvolvedObject: corev1.ObjectReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: o.GetNamespace(),
			Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()},
		Type: kind, Reason: reason, Message: message, Count: 1,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
		Source: corev1.EventSource{Component: "writ-reconciler"}, ReportingController: "writ.dev/reconciler",
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
