package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script answers probes in order; the last answer repeats.
type script struct {
	answers []Result
	asked   []time.Duration // since the start
	start   time.Time
}

func (s *script) Probe(context.Context, *corev1.Probe, Target) (Result, string) {
	r := s.answers[min(len(s.asked), len(s.answers)-1)]
	s.asked = append(s.asked, time.Since(s.start))
	return r, "answer"
}

func TestWorker(t *testing.T) {
	const S, F, U = Success, Failure, Unknown
	tests := []struct {
		name    string
		kind    Type
		spec    corev1.Probe
		answers []Result
		run     time.Duration
		want    string // results with the second they came
		asked   int
	}{
		{"first success at once", Readiness, corev1.Probe{PeriodSeconds: 10}, []Result{S}, 25 * time.Second, "0s success", 3},
		{"initial delay", Readiness, corev1.Probe{PeriodSeconds: 10, InitialDelaySeconds: 7}, []Result{S}, 20 * time.Second, "7s success", 2},
		{"failures up to the threshold", Readiness, corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3}, []Result{S, F, F, S, F, F, F, F}, 10 * time.Second, "0s success, 6s failure", 10},
		{"success up to the threshold", Readiness, corev1.Probe{PeriodSeconds: 1, SuccessThreshold: 2, FailureThreshold: 1}, []Result{F, S, F, S, S}, 10 * time.Second, "0s failure, 4s success", 10},
		{"liveness ends when it fails", Liveness, corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2}, []Result{S, F}, 10 * time.Second, "0s success, 2s failure", 3},
		{"startup ends when it succeeds", Startup, corev1.Probe{PeriodSeconds: 1, FailureThreshold: 30}, []Result{F, F, S}, 10 * time.Second, "2s success", 3},
		{"startup gives up", Startup, corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2}, []Result{F}, 10 * time.Second, "1s failure", 2},
		{"unknown is thrown away", Liveness, corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2}, []Result{F, U, F}, 4500 * time.Millisecond, "2s failure", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				s := &script{answers: tt.answers, start: start}
				var got []string
				w := Worker{Type: tt.kind, Spec: &tt.spec, Prober: s, Since: start, OnResult: func(r Result) {
					got = append(got, fmt.Sprintf("%s %s", time.Since(start), r))
				}}
				ctx, cancel := context.WithTimeout(t.Context(), tt.run-time.Millisecond)
				defer cancel()
				w.Run(ctx)
				if g := strings.Join(got, ", "); g != tt.want {
					t.Errorf("results %q, want %q", g, tt.want)
				}
				if len(s.asked) != tt.asked {
					t.Errorf("asked %d times at %v, want %d", len(s.asked), s.asked, tt.asked)
				}
			})
		})
	}
}

// A probe that hangs is ended by its timeout and counts as asked.
type hanging struct{}

func (hanging) Probe(ctx context.Context, _ *corev1.Probe, _ Target) (Result, string) {
	<-ctx.Done()
	return Failure, ctx.Err().Error()
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at time.Duration
		w := Worker{Type: Startup, Spec: &corev1.Probe{PeriodSeconds: 10, TimeoutSeconds: 3, FailureThreshold: 1}, Prober: hanging{}, Since: start,
			OnResult: func(Result) { at = time.Since(start) }}
		w.Run(t.Context())
		if at != 3*time.Second {
			t.Errorf("failed after %s", at)
		}
	})
}

func portOf(t *testing.T, addr string) intstr.IntOrString {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return intstr.Parse(p)
}

func TestHTTP(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			if r.Header.Get("X-A") != "b" || r.URL.RawQuery != "q=1" || !strings.HasPrefix(r.UserAgent(), "kube-probe/") {
				w.WriteHeader(http.StatusTeapot)
			}
		case "/moved":
			http.Redirect(w, r, "/bad", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer srv.Close()
	port := portOf(t, srv.Listener.Addr().String())
	named := &corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: port.IntVal}}}
	tests := []struct {
		name string
		a    corev1.HTTPGetAction
		want Result
	}{
		{"ok", corev1.HTTPGetAction{Path: "/ok?q=1", Port: port, HTTPHeaders: []corev1.HTTPHeader{{Name: "X-A", Value: "b"}}}, Success},
		{"by name", corev1.HTTPGetAction{Path: "ok?q=1", Port: intstr.FromString("web"), HTTPHeaders: []corev1.HTTPHeader{{Name: "X-A", Value: "b"}}}, Success},
		{"error", corev1.HTTPGetAction{Path: "/bad", Port: port}, Failure},
		{"redirect is followed", corev1.HTTPGetAction{Path: "/moved", Port: port}, Failure},
		{"redirect elsewhere is an answer", corev1.HTTPGetAction{Path: "/away", Port: port}, Success},
		{"nobody listens", corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(1)}, Failure},
		{"unknown port", corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("none")}, Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, message := New().Probe(t.Context(), &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &tt.a}}, Target{PodIP: "127.0.0.1", Container: named})
			if got != tt.want {
				t.Errorf("%s: %s, want %s", got, message, tt.want)
			}
		})
	}
}

func TestTCPAndGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := health.NewServer()
	h.SetServingStatus("up", healthpb.HealthCheckResponse_SERVING)
	h.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	srv := grpc.NewServer()
	healthpb.RegisterHealthServer(srv, h)
	go func() { _ = srv.Serve(l) }()
	defer srv.Stop()
	port := portOf(t, l.Addr().String())
	ask := func(p corev1.ProbeHandler) Result {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, _ := New().Probe(ctx, &corev1.Probe{ProbeHandler: p}, Target{PodIP: "127.0.0.1", Container: &corev1.Container{}})
		return r
	}
	if r := ask(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}); r != Success {
		t.Errorf("tcp: %s", r)
	}
	if r := ask(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}); r != Failure {
		t.Errorf("tcp to nobody: %s", r)
	}
	for service, want := range map[string]Result{"": Success, "up": Success, "down": Failure, "none": Failure} {
		if r := ask(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port.IntVal, Service: &service}}); r != want {
			t.Errorf("grpc %q: %s, want %s", service, r, want)
		}
	}
}

func TestExec(t *testing.T) {
	answer := func(code int, err error) Target {
		return Target{Exec: func(_ context.Context, _ []string, w io.Writer) (int, error) {
			fmt.Fprint(w, strings.Repeat("x", 20<<10))
			return code, err
		}}
	}
	p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	for _, tt := range []struct {
		t    Target
		want Result
	}{{answer(0, nil), Success}, {answer(1, nil), Failure}, {answer(0, io.ErrUnexpectedEOF), Unknown}, {answer(0, context.DeadlineExceeded), Failure}} {
		r, out := New().Probe(t.Context(), p, tt.t)
		if r != tt.want || len(out) > maxBody {
			t.Errorf("%s with %d bytes, want %s", r, len(out), tt.want)
		}
	}
}

// What a header says replaces what probes say of themselves; an empty Accept
// takes it away.
func TestRequestHeaders(t *testing.T) {
	for _, tt := range []struct {
		headers       []corev1.HTTPHeader
		agent, accept []string
	}{
		{nil, []string{UserAgent}, []string{"*/*"}},
		{[]corev1.HTTPHeader{{Name: "user-agent", Value: "mine"}, {Name: "Accept", Value: "text/plain"}}, []string{"mine"}, []string{"text/plain"}},
		{[]corev1.HTTPHeader{{Name: "Accept"}}, []string{UserAgent}, nil},
	} {
		req, err := Request(t.Context(), &corev1.HTTPGetAction{Port: intstr.FromInt32(80), HTTPHeaders: tt.headers}, Target{PodIP: "10.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		if agent, accept := req.Header["User-Agent"], req.Header["Accept"]; fmt.Sprint(agent) != fmt.Sprint(tt.agent) || fmt.Sprint(accept) != fmt.Sprint(tt.accept) {
			t.Errorf("%v: %v, %v", tt.headers, agent, accept)
		}
	}
}
