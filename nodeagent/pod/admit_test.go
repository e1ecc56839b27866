package pod

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/admit"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/schema"
)

func imageOf(user string) image.Image { return image.Image{User: user} }

// A pod that the node cannot run as it says fails before anything of it is
// made; one that runs already is left to run.
func TestRefusedPodFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &shortTokens{}, does)
		n.pods.cfg.Admit = func(_ context.Context, p *corev1.Pod) (*admit.Refusal, error) {
			return admit.Admit(admit.Node{}, admit.Pod{Pod: p}), nil
		}
		var events said
		n.pods.cfg.Events = &events
		p := aPod("runs")
		p.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID("u")}
		p.Spec.HostUsers = new(false)
		n.run([]*corev1.Pod{p}, func() {
			time.Sleep(time.Minute)
			got, err := client.Get[*corev1.Pod](t.Context(), n.api, schema.KeyOf(p))
			if err != nil || got.Status.Phase != corev1.PodFailed || got.Status.Reason != admit.ReasonField || got.Status.Message == "" {
				t.Errorf("%v %+v", err, got.Status)
			}
			if all, _ := n.fake.List(t.Context(), ""); len(all) != 0 {
				t.Errorf("containers: %v", all)
			}
			if sandboxes, _ := n.fake.Sandboxes(t.Context()); len(sandboxes) != 0 {
				t.Errorf("sandboxes: %v", sandboxes)
			}
			if len(events) == 0 || events[0] != admit.ReasonField {
				t.Errorf("events: %v", events)
			}
		})
	})
}

// Containers that say nothing have the runtime's seccomp profile, unless the
// node says otherwise; groups of the image are left out under Strict.
func TestSecurityDefaults(t *testing.T) {
	strict := corev1.SupplementalGroupsPolicyStrict
	p := aPod("c")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}
	s, err := securityOf(p, &p.Spec.Containers[0], imageOf("0"))
	if err != nil || !s.StrictGroups {
		t.Errorf("strict: %+v %v", s, err)
	}
	for _, c := range []struct {
		off     bool
		profile *corev1.SeccompProfile
		want    string
	}{
		{false, nil, "RuntimeDefault"},
		{true, nil, ""},
		{false, &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}, "Unconfined"},
		{true, &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, "RuntimeDefault"},
	} {
		p := aPod("c")
		p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: c.profile}
		pods := &Pods{cfg: Config{NoSeccompDefault: c.off}}
		if s, err := pods.security(p, &p.Spec.Containers[0], imageOf("0")); err != nil || s.Seccomp != c.want {
			t.Errorf("%+v: %q %v", c, s.Seccomp, err)
		}
	}
}

// No container starts without the variables of services, but those of pods that
// run without a server.
func TestContainersWaitForServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &shortTokens{}, does)
		var known atomic.Bool
		n.pods.cfg.ServicesKnown = known.Load
		p := aPod("runs")
		p.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID("u")}
		p.Spec.Containers[0].Image = "i"
		n.run([]*corev1.Pod{p}, func() {
			state := func() corev1.ContainerState {
				time.Sleep(time.Minute)
				got, err := client.Get[*corev1.Pod](t.Context(), n.api, schema.KeyOf(p))
				if err != nil || len(got.Status.ContainerStatuses) != 1 {
					t.Fatalf("%v %+v", err, got.Status)
				}
				return got.Status.ContainerStatuses[0].State
			}
			if st := state(); st.Waiting == nil || st.Waiting.Message != "services have not yet been read at least once, cannot construct envvars" {
				t.Errorf("before: %+v", st)
			}
			known.Store(true)
			if st := state(); st.Running == nil {
				t.Errorf("after: %+v", st)
			}
		})
	})
}
