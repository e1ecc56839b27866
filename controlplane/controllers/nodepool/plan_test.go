package nodepool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// brief is a step without its reasons.
func brief(p plan) string {
	var out []string
	for _, s := range p.steps {
		text := string(s.action) + " " + s.node
		if s.image != "" {
			text += " " + s.image
		}
		if s.next != "" {
			kind, _, _ := strings.Cut(s.next, " ")
			text += " -> " + kind
		}
		for _, pod := range s.pods {
			text += " " + pod.Name
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestDecide(t *testing.T) {
	old, next := anImage("old", "1.0.0"), anImage("new", "1.1.0")
	bad := anImage("new", "1.1.0")
	bad.Status.Failed = []v1alpha1.NodeImageFailure{{Node: "w1", Reason: "ImageFailed", Message: "no network"}}
	paused := func(p *v1alpha1.NodePool) { p.Spec.Update.Paused = true }
	night := func(p *v1alpha1.NodePool) {
		p.Spec.RebootWindow = &v1alpha1.RebootWindow{Start: "02:00", Duration: metav1.Duration{Duration: time.Hour}, Timezone: "UTC"}
	}
	quiet := func(p *v1alpha1.NodePool) { p.Spec.KernelArguments = []string{"quiet", "a=b"} }
	arguments := []string{v1alpha1.KernelArgumentsAnnotation, v1alpha1.KernelArgumentsHash("quiet a=b")}
	settlingNode := func(name string, ago time.Duration) *corev1.Node {
		return aNode(name, "1.1.0", v1alpha1.UpdateStepAnnotation, note(settling, noon.Add(-ago)))
	}
	arm := aNode("w1", "1.0.0")
	arm.Status.NodeInfo.Architecture = "arm64"
	unable := aNode("w1", "1.1.0")
	unable.Status.Conditions = append(unable.Status.Conditions, corev1.NodeCondition{Type: v1alpha1.NodeSettingsApplied, Status: corev1.ConditionFalse,
		Message: "NodePool p: sysctl vm.swappiness: the kernel refuses the value \"x\""})
	byPerson := stagedNode("w1", "1.0.0", "new")
	byPerson.Spec.Unschedulable = true
	openedByPerson := drainingNode("w1", "1.0.0", "new", time.Minute)
	openedByPerson.Spec.Unschedulable = false
	retry := bad.DeepCopy()
	retry.Annotations = map[string]string{v1alpha1.RetryAnnotation: "monday"}
	heeded := retry.DeepCopy()
	heeded.Status.Retried = "monday"

	for _, c := range []struct {
		name                       string
		objects                    []any
		steps, ready, why, message string
		degraded                   bool
	}{
		{"all there", []any{aPool("p", "new"), next, aNode("w1", "1.1.0")}, "", "True", "UpToDate", "1 node is up to date", false},
		{"no image", []any{aPool("p", ""), aNode("w1", "1.0.0")}, "", "True", "NoImage", "left alone", false},
		{"no image any more", []any{aPool("p", ""), stagedNode("w1", "1.0.0", "new")}, "Forget w1", "True", "NoImage", "", false},
		{"not made from an image", []any{aPool("p", "new"), next, aNode("w1", ""), aNode("w2", "1.1.0")}, "", "True", "UpToDate", "1 node was not made from an image and left alone", false},
		{"an image that is not there", []any{aPool("p", "nwe"), next, aNode("w1", "1.0.0")}, "", "False", "ImageNotFound", "no NodeImage nwe", true},
		{"all begin to fetch", []any{aPool("p", "new"), next, aNode("w1", "1.0.0"), aNode("w2", "1.0.0")}, "Stage w1 new; Stage w2 new", "False", "Updating", "0 of 2 nodes are updated", false},
		{"fetching", []any{aPool("p", "new"), next, aNode("w1", "1.0.0", v1alpha1.DesiredImageAnnotation, "new", v1alpha1.UpdatePhaseAnnotation, "Writing", v1alpha1.UpdateMessageAnnotation, "40%")}, "Wait w1", "False", "Updating", "it fetches new (Writing: 40%)", false},
		{"one of two begins", []any{aPool("p", "new"), next, stagedNode("w1", "1.0.0", "new"), stagedNode("w2", "1.0.0", "new")}, "Cordon w1 -> Draining; Wait w2", "False", "Updating", "w2: 1 node is away, 1 may be", false},
		{"two may", []any{aPool("p", "new", atMost("2")), next, stagedNode("w1", "1.0.0", "new"), stagedNode("w2", "1.0.0", "new")}, "Cordon w1 -> Draining; Cordon w2 -> Draining", "False", "Updating", "", false},
		{"a part, rounded down", []any{aPool("p", "new", atMost("60%")), next, stagedNode("w1", "1.0.0", "new"), stagedNode("w2", "1.0.0", "new"), stagedNode("w3", "1.0.0", "new")}, "Cordon w1 -> Draining; Wait w2; Wait w3", "False", "Updating", "", false},
		{"one that is not ready takes the place", []any{aPool("p", "new"), next, stagedNode("w1", "1.0.0", "new"), notReady(aNode("w2", "1.1.0"))}, "Wait w1", "False", "Updating", "1 node is away", false},
		{"one that is not ready is not begun", []any{aPool("p", "new"), next, notReady(stagedNode("w1", "1.0.0", "new"))}, "Wait w1", "False", "Updating", "not ready", false},
		{"a person's cordon", []any{aPool("p", "new"), next, byPerson}, "Cordon w1 -> Draining", "False", "Updating", "", false},
		{"another image was staged", []any{aPool("p", "new"), old, next, stagedNode("w1", "0.9.0", "old")}, "Forget w1", "False", "Updating", "", false},
		{"its agent has yet to drop it", []any{aPool("p", "new"), next, aNode("w1", "1.0.0", v1alpha1.UpdatePhaseAnnotation, "Staged")}, "Wait w1", "False", "Updating", "yet to drop", false},
		{"arrived and clean", []any{aPool("p", "new"), next, aNode("w1", "1.1.0", v1alpha1.DesiredImageAnnotation, "new")}, "Forget w1", "True", "UpToDate", "", false},
		{"a setting that is refused", []any{aPool("p", "new"), next, unable, aNode("w2", "1.0.0")}, "Stage w2 new", "False", "SettingsNotApplied", "these nodes are not as the pool says: w1: NodePool p: sysctl vm.swappiness: the kernel refuses the value \"x\"", true},
		{"for another machine", []any{aPool("p", "new"), next, arm, aNode("w2", "1.0.0")}, "Stage w2 new", "False", "WrongArchitecture", "new is for amd64, and these nodes are not: w1", true},

		{"paused before", []any{aPool("p", "new", paused), next, aNode("w1", "1.0.0"), stagedNode("w2", "1.0.0", "new")}, "Wait w2", "False", "Paused", "the pool is paused", false},
		{"paused amid", []any{aPool("p", "new", paused), next, drainingNode("w1", "1.0.0", "new", time.Minute), stagedNode("w2", "1.0.0", "new")}, "Reboot w1 new -> Rebooting; Wait w2", "False", "Updating", "", false},
		{"outside the window", []any{aPool("p", "new", night), next, aNode("w1", "1.0.0"), stagedNode("w2", "1.0.0", "new")}, "Stage w1 new; Wait w2", "False", "OutsideWindow", "when the window opens, Thu 2026-03-05 02:00 UTC", false},
		{"the window closes amid", []any{aPool("p", "new", night), next, drainingNode("w1", "1.0.0", "new", time.Minute)}, "Uncordon w1", "False", "Updating", "", false},
		{"paused outside the window", []any{aPool("p", "new", night, paused), next, drainingNode("w1", "1.0.0", "new", time.Minute)}, "Uncordon w1", "False", "Updating", "", false},
		{"a zone that is not there", []any{aPool("p", "new", func(p *v1alpha1.NodePool) { night(p); p.Spec.RebootWindow.Timezone = "Mars/Base" }), next, stagedNode("w1", "1.0.0", "new")}, "Wait w1", "False", "InvalidWindow", "Mars/Base", true},

		{"pods leave", []any{aPool("p", "new"), next, drainingNode("w1", "1.0.0", "new", time.Minute), aPod("a", "w1"), aPod("b", "w1")}, "Evict w1 a b", "False", "Updating", "2 pods are leaving", false},
		{"a budget blocks", []any{aPool("p", "new"), next, drainingNode("w1", "1.0.0", "new", time.Minute), aPod("a", "w1"), aPod("b", "w1"), aBudget("web", 1)}, "Evict w1 a", "False", "Updating", "PodDisruptionBudget shop/web blocks pod b", false},
		{"a budget blocks for long", []any{aPool("p", "new", atMost("2")), next, drainingNode("w1", "1.0.0", "new", 11*time.Minute), stagedNode("w2", "1.0.0", "new"), aPod("a", "w1"), aBudget("web", 0)}, "Wait w1", "False", "DrainBlocked", "node w1 is not drained after 10m0s: PodDisruptionBudget shop/web blocks pod a", true},
		{"a bare pod, before", []any{aPool("p", "new"), next, stagedNode("w1", "1.0.0", "new"), aPod("a", "w1", bare)}, "Wait w1", "False", "Updating", `pod shop/a has no controller that would make it anew: delete it, or annotate it with writ.dev/evictable: "true"`, false},
		{"a bare pod, amid", []any{aPool("p", "new"), next, drainingNode("w1", "1.0.0", "new", time.Minute), aPod("a", "w1", bare)}, "Wait w1", "False", "Updating", "no controller", false},
		{"somebody let pods back", []any{aPool("p", "new"), next, openedByPerson}, "Cordon w1 -> Draining", "False", "Updating", "", false},
		{"drained", []any{aPool("p", "new"), next, drainingNode("w1", "1.0.0", "new", time.Minute)}, "Reboot w1 new -> Rebooting", "False", "Updating", "", false},
		{"drained, and another went away", []any{aPool("p", "new"), next, drainingNode("w1", "1.0.0", "new", time.Minute), notReady(aNode("w2", "1.0.0"))}, "Wait w1; Stage w2 new", "False", "Updating", "w1: 1 other node is away", false},
		{"drained, fewer may be away now", []any{aPool("p", "new"), next, drainingNode("w1", "1.0.0", "new", time.Minute), drainingNode("w2", "1.0.0", "new", time.Minute)}, "Reboot w1 new -> Rebooting; Wait w2", "False", "Updating", "", false},
		{"turned back while draining", []any{aPool("p", "old"), old, next, drainingNode("w1", "1.0.0", "new", time.Minute)}, "Uncordon w1", "False", "Updating", "", false},

		{"away", []any{aPool("p", "new"), next, notReady(rebootingNode("w1", "1.0.0", "new", time.Minute)), stagedNode("w2", "1.0.0", "new")}, "Wait w1; Wait w2", "False", "Updating", "it reboots into new, since 11:59:00 UTC", false},
		{"back, on trial", []any{aPool("p", "new"), next, rebootingNode("w1", "1.1.0", "new", time.Minute, v1alpha1.UpdatePhaseAnnotation, "Trying")}, "Wait w1", "False", "Updating", "", false},
		{"back", []any{aPool("p", "new"), next, rebootingNode("w1", "1.1.0", "new", time.Minute, v1alpha1.UpdatePhaseAnnotation, "Idle")}, "Uncordon w1 -> Settling", "False", "Updating", "", false},
		{"back, turned back meanwhile", []any{aPool("p", "old"), old, next, rebootingNode("w1", "1.1.0", "new", time.Minute, v1alpha1.UpdatePhaseAnnotation, "Idle")}, "Uncordon w1 -> Settling", "False", "Updating", "", false},
		{"settles", []any{aPool("p", "new"), next, settlingNode("w1", 20*time.Second), stagedNode("w2", "1.0.0", "new")}, "Wait w1; Wait w2", "False", "Updating", "", false},
		{"has settled, the next begins after", []any{aPool("p", "new"), next, settlingNode("w1", 30*time.Second), stagedNode("w2", "1.0.0", "new")}, "Mark w1; Wait w2", "False", "Updating", "", false},
		{"does not settle", []any{aPool("p", "new"), next, notReady(settlingNode("w1", 20*time.Second))}, "Mark w1 -> Unsettled", "False", "Updating", "", false},

		{"fails, to be remembered", []any{aPool("p", "new"), next, rebootingNode("w1", "1.0.0", "new", time.Minute, v1alpha1.UpdateFailedAnnotation, "new", v1alpha1.UpdateMessageAnnotation, "no network"), aNode("w2", "1.0.0")}, "Fail w1 new", "False", "ImageFailed", "new failed on node w1: no network. No other node is touched: revert the commit", true},
		{"failed, remembered", []any{aPool("p", "new"), bad, rebootingNode("w1", "1.0.0", "new", time.Minute, v1alpha1.UpdateFailedAnnotation, "new"), stagedNode("w2", "1.0.0", "new")}, "Uncordon w1", "False", "ImageFailed", "", true},
		{"failed, another drains", []any{aPool("p", "new"), bad, drainingNode("w2", "1.0.0", "new", time.Minute)}, "Uncordon w2", "False", "ImageFailed", "", true},
		{"failed, let back", []any{aPool("p", "new"), bad, stagedNode("w1", "1.0.0", "new", v1alpha1.UpdateFailedAnnotation, "new")}, "Forget w1", "False", "ImageFailed", "", true},
		{"fails to fetch", []any{aPool("p", "new"), next, aNode("w1", "1.0.0", v1alpha1.DesiredImageAnnotation, "new", v1alpha1.UpdateFailedAnnotation, "new"), stagedNode("w2", "1.0.0", "new")}, "Fail w1 new", "False", "ImageFailed", "", true},
		{"lost", []any{aPool("p", "new"), next, notReady(rebootingNode("w1", "1.0.0", "new", 15*time.Minute)), stagedNode("w2", "1.0.0", "new")}, "Fail w1 new", "False", "NodeLost", "not back 15m0s after the order to reboot", true},
		{"failed elsewhere", []any{aPool("p", "new"), bad, aNode("w9", "1.0.0"), stagedNode("w8", "1.0.0", "new")}, "", "False", "ImageFailed", "annotate NodeImage new with writ.dev/retry", true},
		{"failed, turned back", []any{aPool("p", "old"), old, bad, stagedNode("w1", "1.0.0", "new", v1alpha1.UpdateFailedAnnotation, "new"), aNode("w2", "1.1.0")}, "Forget w1; Stage w2 old", "False", "Updating", "", false},
		{"tried again", []any{aPool("p", "new"), retry, aNode("w1", "1.0.0")}, "Stage w1 new", "False", "Updating", "", false},
		{"tried again, failed again", []any{aPool("p", "new"), heeded, aNode("w1", "1.0.0")}, "", "False", "ImageFailed", "", true},
		{"all run what failed on one", []any{aPool("p", "new"), bad, aNode("w1", "1.1.0")}, "", "True", "UpToDate", "", false},

		{"other arguments", []any{aPool("p", "new", quiet), next, aNode("w1", "1.1.0"), aNode("w2", "1.1.0", arguments...)}, "Stage w1 new", "False", "Updating", "1 of 2 nodes are updated", false},
		{"arguments that are gone", []any{aPool("p", "new"), next, aNode("w1", "1.1.0", arguments...)}, "Stage w1 new", "False", "Updating", "", false},
		{"arguments that fail", []any{aPool("p", "new", quiet), next, rebootingNode("w1", "1.1.0", "new", time.Minute, v1alpha1.DesiredKernelArgumentsAnnotation, "quiet a=b", v1alpha1.UpdateFailedAnnotation, "new")}, "Fail w1 new", "False", "KernelArgumentsFailed", `new with the kernel arguments "quiet a=b" failed on node w1`, true},

		{"one server alone", []any{aPool("p", "new"), next, server(stagedNode("s1", "1.0.0", "new"))}, "Cordon s1 -> Draining", "False", "Updating", "", false},
		{"one of two servers", []any{aPool("p", "new"), next, server(stagedNode("s1", "1.0.0", "new")), server(stagedNode("s2", "1.0.0", "new"))}, "Wait s1; Wait s2", "False", "Updating", "of two control-plane nodes none can be away", false},
		{"servers, one at a time", []any{aPool("p", "new", atMost("100%")), next, server(stagedNode("s1", "1.0.0", "new")), server(stagedNode("s2", "1.0.0", "new")), server(stagedNode("s3", "1.0.0", "new"))}, "Cordon s1 -> Draining; Wait s2; Wait s3", "False", "Updating", "", false},
		{"a server of no pool is not ready", []any{aPool("p", "new", func(p *v1alpha1.NodePool) { p.Spec.Selector.MatchLabels = map[string]string{"in": "p"} }), next, in("p", server(stagedNode("s1", "1.0.0", "new"))), server(aNode("s2", "1.0.0")), server(notReady(aNode("s3", "1.0.0")))}, "Wait s1", "False", "Updating", "control-plane node s3 is not ready", false},
		{"a server drained, another not ready", []any{aPool("p", "new"), next, server(drainingNode("s1", "1.0.0", "new", time.Minute)), server(notReady(aNode("s2", "1.1.0"))), server(aNode("s3", "1.1.0"))}, "Wait s1", "False", "Updating", "control-plane node s2 is not ready", false},
		{"workers first", []any{aPool("p", "new"), next, server(stagedNode("a", "1.0.0", "new")), stagedNode("b", "1.0.0", "new")}, "Cordon b -> Draining; Wait a", "False", "Updating", "", false},
	} {
		w := aWorld(c.objects...)
		p := decide(w, noon)
		s := p.pools["p"]
		ready := condition(s, "Ready")
		if got := brief(p); got != c.steps {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.steps)
		}
		if string(ready.Status) != c.ready || ready.Reason != c.why || !strings.Contains(ready.Message, c.message) || s.Message != ready.Message {
			t.Errorf("%s: Ready %s %s %q\nwant %s %s %q", c.name, ready.Status, ready.Reason, ready.Message, c.ready, c.why, c.message)
		}
		if d := condition(s, "Degraded").Status == "True"; d != c.degraded {
			t.Errorf("%s: Degraded %v", c.name, d)
		}
		lasts := slices.Contains([]string{"ImageFailed", "NodeLost", "KernelArgumentsFailed", "InvalidWindow"}, c.why)
		if d := condition(s, "Stalled").Status == "True"; d != lasts {
			t.Errorf("%s: Stalled %v", c.name, d)
		}
	}
}

func in(pool string, n *corev1.Node) *corev1.Node {
	n.Labels["in"] = pool
	return n
}

// A node that fails is let back when it is well, and not before; what it had
// staged is dropped after.
func TestFailedNodeIsLetBack(t *testing.T) {
	bad := anImage("new", "1.1.0")
	bad.Status.Failed = []v1alpha1.NodeImageFailure{{Node: "w1", Reason: "NodeLost"}}
	for _, c := range []struct {
		name, version, phase string
		ready                bool
		want                 string
	}{
		{"not there", "1.0.0", "Rebooting", false, "Wait w1"},
		{"on trial", "1.1.0", "Trying", true, "Wait w1"},
		{"back on the old one", "1.0.0", "Failed", true, "Uncordon w1"},
		{"back on the new one", "1.1.0", "Idle", true, "Uncordon w1 -> Settling"},
	} {
		n := rebootingNode("w1", c.version, "new", time.Hour, v1alpha1.UpdatePhaseAnnotation, c.phase)
		setReady(n, c.ready)
		if got := brief(decide(aWorld(aPool("p", "new"), bad, n), noon)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The failure that a plan finds is in the status of the image, once.
func TestFailureIsRemembered(t *testing.T) {
	i := anImage("new", "1.1.0")
	n := rebootingNode("w1", "1.0.0", "new", time.Minute, v1alpha1.UpdateFailedAnnotation, "new", v1alpha1.UpdateMessageAnnotation, "no network")
	w := aWorld(aPool("p", "new"), i, n)
	s := decide(w, noon).images["new"]
	want := v1alpha1.NodeImageFailure{Node: "w1", Reason: "ImageFailed", Message: "no network", Time: metav1.NewTime(noon)}
	if len(s.Failed) != 1 || s.Failed[0] != want || s.Conditions[0].Status != "False" || s.Conditions[0].Reason != "ImageFailed" {
		t.Errorf("status %+v", s)
	}
	if len(i.Status.Failed) != 0 {
		t.Error("the plan changed what it was given")
	}
	i.Status = s
	if again := decide(w, noon.Add(time.Hour)).images["new"]; len(again.Failed) != 1 || again.Failed[0] != want {
		t.Errorf("an hour later %+v", again)
	}
	i.Annotations = map[string]string{v1alpha1.RetryAnnotation: "x"}
	w.nodes[0] = aNode("w1", "1.0.0")
	if again := decide(w, noon).images["new"]; len(again.Failed) != 0 || again.Retried != "x" || again.Conditions[0].Status != "True" {
		t.Errorf("retried %+v", again)
	}
}

// A node whose labels or whose pool have gone is put back.
func TestLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct {
		node *corev1.Node
		want string
	}{
		{stagedNode("w1", "1.0.0", "new"), "Forget w1"},
		{drainingNode("w1", "1.0.0", "new", time.Minute), "Uncordon w1"},
		{notReady(rebootingNode("w1", "1.0.0", "new", time.Minute)), ""},
		{rebootingNode("w1", "1.1.0", "new", time.Minute, v1alpha1.UpdatePhaseAnnotation, "Idle"), "Uncordon w1"},
		{aNode("w1", "1.1.0", v1alpha1.UpdateStepAnnotation, note(settling, noon)), "Mark w1"},
		{aNode("w1", "1.1.0"), ""},
	} {
		if got := brief(decide(aWorld(anImage("new", "1.1.0"), c.node), noon)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// A note that somebody took away is written again from what is left.
func TestLostNote(t *testing.T) {
	w := aWorld(aPool("p", "new"), anImage("new", "1.1.0"), rebootingNode("w1", "1.0.0", "new", 0, v1alpha1.UpdateStepAnnotation, "nonsense"),
		stagedNode("w2", "1.0.0", "new", v1alpha1.CordonedByAnnotation, v1alpha1.CordonedByNodePool))
	if got, want := brief(decide(w, noon)), "Mark w1 -> Rebooting; Mark w2 -> Draining"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestStatusCounts(t *testing.T) {
	w := aWorld(aPool("p", "new", atMost("2")), anImage("new", "1.1.0"), aNode("a", "1.1.0"), aNode("b", ""), notReady(aNode("c", "1.0.0")), drainingNode("d", "1.0.0", "new", time.Minute), aPod("x", "d", bare))
	s := decide(w, noon).pools["p"]
	s.Conditions = nil
	s.Message = ""
	want := v1alpha1.NodePoolStatus{ObservedGeneration: 1, Image: "new", Nodes: 4, Foreign: 1, Updated: 1, Ready: 3, Unavailable: 2,
		Current: []v1alpha1.NodePoolNode{{Node: "d", Step: "Draining", Since: metav1.NewTime(noon.Add(-time.Minute)), Message: homeless(aPod("x", "d", bare))}}}
	if fmt.Sprintf("%+v", s) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v\nwant %+v", s, want)
	}
}

// Only so many fetch at a time; the others follow.
func TestStagesAFewAhead(t *testing.T) {
	objects := []any{aPool("p", "new"), anImage("new", "1.1.0")}
	for i := range 30 {
		objects = append(objects, aNode(fmt.Sprintf("w%02d", i), "1.0.0"))
	}
	if n := len(decide(aWorld(objects...), noon).steps); n != stageAhead {
		t.Errorf("%d fetch at a time", n)
	}
}

// A plan is woken when time alone changes it.
func TestWakes(t *testing.T) {
	next := anImage("new", "1.1.0")
	window := func(p *v1alpha1.NodePool) {
		p.Spec.RebootWindow = &v1alpha1.RebootWindow{Start: "13:00", Duration: metav1.Duration{Duration: time.Hour}}
	}
	for _, c := range []struct {
		name string
		w    world
		want time.Duration
	}{
		{"nothing to do", aWorld(aPool("p", "new"), next, aNode("w1", "1.1.0")), 0},
		{"the window opens", aWorld(aPool("p", "new", window), next, stagedNode("w1", "1.0.0", "new")), time.Hour},
		{"settled", aWorld(aPool("p", "new"), next, aNode("w1", "1.1.0", v1alpha1.UpdateStepAnnotation, note(settling, noon.Add(-10*time.Second)))), 20 * time.Second},
		{"lost", aWorld(aPool("p", "new"), next, notReady(rebootingNode("w1", "1.0.0", "new", time.Minute))), 14 * time.Minute},
		{"evicted again", aWorld(aPool("p", "new"), next, drainingNode("w1", "1.0.0", "new", time.Minute), aPod("a", "w1")), evictAgain},
		{"a bare pod", aWorld(aPool("p", "new"), next, stagedNode("w1", "1.0.0", "new"), aPod("a", "w1", bare)), lookAgain},
	} {
		if got := decide(c.w, noon).again; got != c.want {
			t.Errorf("%s: again in %s, want %s", c.name, got, c.want)
		}
	}
}

// What a plan says does not change with the order in which objects come.
func TestOrderOfObjects(t *testing.T) {
	objects := []any{aPool("p", "new", atMost("2")), aPool("a", ""), anImage("new", "1.1.0"), stagedNode("w1", "1.0.0", "new"), stagedNode("w2", "1.0.0", "new"), stagedNode("w3", "1.0.0", "new")}
	objects[0].(*v1alpha1.NodePool).Spec.Priority = 1
	want := brief(decide(aWorld(objects...), noon))
	slices.Reverse(objects)
	if got := brief(decide(aWorld(objects...), noon)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
