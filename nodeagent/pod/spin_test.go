package pod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/probe"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
	"github.com/writ-os/writ/nodeagent/volume"
	"github.com/writ-os/writ/schema"
)

type noNetwork struct{}

func (noNetwork) Attach(context.Context, network.Pod) (network.Attachment, error) {
	return network.Attachment{}, nil
}
func (noNetwork) Detach(context.Context, string) error { return nil }

// shortTokens are tokens of a day by a server whose clock is off by skew.
type shortTokens struct {
	skew   time.Duration
	issued atomic.Int64
}

func (s *shortTokens) Token(_ context.Context, _, _ string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	n := s.issued.Add(1)
	out := tr.DeepCopy()
	out.Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprint(n), ExpirationTimestamp: metav1.NewTime(time.Now().Add(24*time.Hour + s.skew))}
	return out, nil
}

// aNode runs pods over a runtime in memory for a time and returns the rounds of
// each pod's worker.
type aNode struct {
	t      *testing.T
	fake   *fake.Runtime
	api    *client.Fake
	pods   *Pods
	tokens *shortTokens
	mu     sync.Mutex
	rounds map[string]int
}

func newNode(t *testing.T, tokens *shortTokens, behavior func(runtime.Spec) fake.Outcome) *aNode {
	n := &aNode{t: t, api: client.NewFake(), tokens: tokens, rounds: map[string]int{}}
	n.fake = fake.New(fake.Config{Behavior: behavior})
	n.pods = New(Config{
		NodeName: "n1", HostIPs: []string{"127.0.0.1"}, Runtime: n.fake, Images: n.fake, Puller: image.NewPuller(n.fake, 0),
		Network: noNetwork{}, Client: n.api, Prober: probe.New(),
		Volumes: volume.New(volume.Config{Dir: t.TempDir(), Tokens: tokens, Unprivileged: true}),
	})
	n.pods.onRound = func(uid string) {
		n.mu.Lock()
		n.rounds[uid]++
		spins := n.rounds[uid] > 200_000
		n.mu.Unlock()
		if spins { // the test has failed, and shall end
			time.Sleep(time.Hour)
		}
	}
	return n
}

// run runs the node; during is called when all pods were handed in.
func (n *aNode) run(pods []*corev1.Pod, during func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan error, 1)
	go func() { done <- n.pods.Run(ctx, func() {}) }()
	err := n.api.Cache().Subscribe(ctx, schema.ResourceFor[*corev1.Pod](), func(e client.Event) {
		p := e.Object.(*corev1.Pod)
		if e.Type == client.Deleted {
			n.pods.Remove(string(p.UID))
			return
		}
		n.pods.Update(p, nil)
	})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, p := range pods {
		n.api.Put(p)
	}
	during()
	cancel()
	if err := <-done; err != nil {
		n.t.Error(err)
	}
}

// withToken gives a pod a projected token of a day.
func withToken(p *corev1.Pod) *corev1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(86400))}},
		}},
	}})
	return p
}

const days = 30

// kinds are pods of every kind, with what their containers do and how many
// rounds a day their workers may need.
var kinds = []struct {
	name   string
	count  int
	pod    func() *corev1.Pod
	perDay int // a token is renewed after 19 hours, in two rounds
}{
	{"done", 45, func() *corev1.Pod { return policy(aPod("ends"), corev1.RestartPolicyNever) }, 1},
	{"failed", 10, func() *corev1.Pod { return policy(aPod("fails"), corev1.RestartPolicyNever) }, 1},
	{"evicted", 5, func() *corev1.Pod {
		p := aPod("runs")
		p.Spec.ActiveDeadlineSeconds = new(int64(7200))
		return p
	}, 5},
	{"running", 12, func() *corev1.Pod { return aPod("runs") }, 3},
	{"crashing", 1, func() *corev1.Pod { return aPod("crashes") }, 103 * 9},
	{"deleted", 10, func() *corev1.Pod { return aPod("runs") }, 4},
	{"stuck", 3, func() *corev1.Pod { return aPod("stuck") }, 3}, // SIGKILL does not reach it
	{"init", 7, func() *corev1.Pod { return aPod("init ends", "runs") }, 3},
	{"init fails", 1, func() *corev1.Pod { return aPod("init crashes", "runs") }, 288*9/days + 3},
	{"sidecar", 5, func() *corev1.Pod { return policy(aPod("sidecar runs", "ends"), corev1.RestartPolicyNever) }, 1},
	{"cannot start", 1, func() *corev1.Pod { return aPod("startfails") }, 288*9/days + 3},
}

func does(s runtime.Spec) fake.Outcome {
	switch {
	case strings.HasPrefix(s.Name, "ends"):
		return fake.Outcome{After: time.Minute}
	case s.Name == "fails":
		return fake.Outcome{After: time.Hour, ExitCode: 1}
	case s.Name == "crashes":
		return fake.Outcome{After: 9 * time.Minute, ExitCode: 1}
	case s.Name == "stuck":
		return fake.Outcome{IgnoreTerm: true}
	case s.Name == "startfails":
		return fake.Outcome{StartErr: errors.New("no such file")}
	}
	return fake.Outcome{}
}

// Thirty days of a node of a hundred pods: no worker does more rounds than
// what happens to its pod explains.
func TestNoWorkerSpins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &shortTokens{}, does)
		var pods []*corev1.Pod
		limit := map[string]int{}
		for _, k := range kinds {
			for i := range k.count {
				p := k.pod()
				if i < 2 || k.perDay < 10 {
					withToken(p)
				}
				p.Name = fmt.Sprintf("%s-%d", strings.ReplaceAll(k.name, " ", "-"), i)
				p.UID = types.UID(p.Name)
				for j := range p.Spec.Containers {
					p.Spec.Containers[j].Image = "i"
				}
				for j := range p.Spec.InitContainers {
					p.Spec.InitContainers[j].Image = "i"
				}
				pods, limit[p.Name] = append(pods, p), 60+days*k.perDay
			}
		}
		if len(pods) != 100 {
			t.Fatalf("%d pods", len(pods))
		}
		n.run(pods, func() {
			time.Sleep(24 * time.Hour)
			end := func(kind string) {
				for _, p := range pods {
					if strings.HasPrefix(p.Name, strings.ReplaceAll(kind, " ", "-")) {
						if err := client.Delete[*corev1.Pod](t.Context(), n.api, schema.KeyOf(p), client.DeleteOptions{}); err != nil {
							t.Error(err)
						}
					}
				}
			}
			end("deleted")
			end("init fails")
			end("cannot start")
			time.Sleep(time.Hour)
			n.fake.Fail("Signal", errors.New("shim is gone"))
			end("stuck")
			time.Sleep((days - 1) * 24 * time.Hour)
		})
		for name, max := range limit {
			if got := n.rounds[name]; got > max || got == 0 {
				t.Errorf("%s: %d rounds in %d days, at most %d", name, got, days, max)
			}
		}
		if testing.Verbose() {
			t.Log(n.rounds)
		}
		if held := n.pods.Held(); held != 0 {
			t.Errorf("%d rounds were held back", held)
		}
	})
}

// A server whose clock is hours behind gives out tokens that are old at once.
func TestExpiredTokensDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &shortTokens{skew: -50 * time.Hour}, does)
		p := withToken(aPod("runs"))
		p.Spec.Containers[0].Image = "i"
		n.run([]*corev1.Pod{p}, func() { time.Sleep(24 * time.Hour) })
		if got := n.tokens.issued.Load(); got < 20 || got > 24*60+1 {
			t.Errorf("%d tokens in a day", got)
		}
	})
}

// A worker that asks for a time that is past does not spin: the guard has it.
func TestSpinningWorkerIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &shortTokens{}, does)
		n.pods.wakeAt = func(time.Time) time.Time { return time.Now().Add(-time.Hour) }
		p := aPod("runs")
		p.Spec.Containers[0].Image = "i"
		n.run([]*corev1.Pod{p}, func() { time.Sleep(24 * time.Hour) })
		if got := n.rounds["u"]; got > 350 {
			t.Errorf("%d rounds in a day", got)
		}
		if n.pods.Held() < 280 {
			t.Errorf("%d held", n.pods.Held())
		}
	})
}
