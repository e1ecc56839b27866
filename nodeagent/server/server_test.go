package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// one is a node with one pod, whose logs are in a directory.
type one struct {
	pod *corev1.Pod
	dir string
}

func (o one) Get(ns, name string) (*corev1.Pod, bool) {
	return o.pod, o.pod.Namespace == ns && o.pod.Name == name
}
func (o one) List() []*corev1.Pod { return []*corev1.Pod{o.pod} }
func (o one) LogPath(_ *corev1.Pod, c string, attempt int) string {
	return filepath.Join(o.dir, c+"-"+string(rune('0'+attempt)))
}

func podWith(statuses ...corev1.ContainerStatus) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name = "shop", "web"
	p.Status.ContainerStatuses = statuses
	for _, st := range statuses {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: st.Name})
	}
	return p
}

func running(restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", ContainerID: "containerd://now", RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func waitingFor(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", RestartCount: 2, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func died(s corev1.ContainerStatus) corev1.ContainerStatus {
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "containerd://before"}
	return s
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name     string
		status   corev1.ContainerStatus
		previous bool
		want     log
		err      string
	}{
		{"running", running(3), false, log{"containerd://now", 3}, ""},
		{"previous of a running one", died(running(3)), true, log{"containerd://before", 2}, ""},
		{"no previous", running(0), true, log{}, `previous terminated container "c" in pod "web" not found`},
		{"in back-off", died(waitingFor("CrashLoopBackOff")), false, log{"containerd://before", 2}, ""},
		{"previous in back-off", died(waitingFor("CrashLoopBackOff")), true, log{"containerd://before", 2}, ""},
		{"creating", waitingFor("ContainerCreating"), false, log{}, `container "c" in pod "web" is waiting to start: ContainerCreating`},
		{"pulling", waitingFor("ErrImagePull"), false, log{}, `container "c" in pod "web" is waiting to start: image can't be pulled`},
	} {
		got, err := choose(podWith(c.status), "c", c.previous)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %v, %v; want %v, %s", c.name, got, err, c.want, c.err)
		}
	}
	if _, err := choose(podWith(), "x", false); err == nil {
		t.Error("an unknown container has a log")
	}
}

// ask asks as a client whose verified certificate has the organizations; nil
// has none.
func ask(t *testing.T, s *Server, path string, organizations []string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.TLS = &tls.ConnectionState{}
	if organizations != nil {
		r.TLS.VerifiedChains = [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "x", Organization: organizations}}}}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestWhoMayAsk(t *testing.T) {
	s := New(Config{Pods: one{pod: podWith()}})
	for _, c := range []struct {
		path string
		who  []string
		want int
	}{
		{"/healthz", nil, 200},
		{"/pods", nil, 401},
		{"/pods", []string{"system:nodes"}, 403},
		{"/pods", []string{"system:masters"}, 200},
		{"/pods", []string{"system:writ:kubelet-clients"}, 200},
		{"/containerLogs/shop/web/c", []string{"system:authenticated", "writ:viewers"}, 403},
		{"/containerLogs/shop/web/c", nil, 401},
	} {
		if got := ask(t, s, c.path, c.who).Code; got != c.want {
			t.Errorf("GET %s as %v: %d, want %d", c.path, c.who, got, c.want)
		}
	}
}

func TestLogs(t *testing.T) {
	dir := t.TempDir()
	o := one{pod: podWith(died(running(1))), dir: dir}
	write := func(attempt, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "c-"+attempt), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0", "2026-01-02T03:04:05.000000001Z stdout F before\n")
	write("1", "2026-01-02T03:04:06.000000001Z stdout F one\n2026-01-02T03:04:07.000000001Z stderr F two\n")
	s := New(Config{Pods: o})
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/containerLogs/shop/web/c", 200, "one\ntwo\n"},
		{"/containerLogs/shop/web/c?tailLines=1", 200, "two\n"},
		{"/containerLogs/shop/web/c?tailLines=1&timestamps=true", 200, "2026-01-02T03:04:07.000000001Z two\n"},
		{"/containerLogs/shop/web/c?sinceTime=2026-01-02T03:04:07Z", 200, "two\n"},
		{"/containerLogs/shop/web/c?previous=true", 200, "before\n"},
		{"/containerLogs/shop/web/c?stream=Stderr", 200, "two\n"},
		{"/containerLogs/shop/web/c?stream=Stdout&limitBytes=2", 200, "on"},
		{"/containerLogs/shop/web/c?tail=all&limitBytes=5", 200, "one\nt"},
		{"/containerLogs/shop/web/c?tail=1", 200, "two\n"},
		{"/containerLogs/shop/web/c?tailLines=0", 200, ""},
		{"/containerLogs/shop/web/c?sinceSeconds=1", 200, ""},
		{"/containerLogs/shop/web/c?tailLines=x", 400, `{"message": "Unable to decode query."}`},
		{"/containerLogs/shop/web/c?tailLines=-1", 422, `{"message": "Invalid request."}`},
		{"/containerLogs/shop/web/c?limitBytes=0", 422, `{"message": "Invalid request."}`},
		{"/containerLogs/shop/web/c?sinceSeconds=0", 422, `{"message": "Invalid request."}`},
		{"/containerLogs/shop/web/c?sinceSeconds=1&sinceTime=2026-01-02T03:04:07Z", 422, `{"message": "Invalid request."}`},
		{"/containerLogs/shop/web/c?stream=Stdout&tailLines=1", 422, `{"message": "Invalid request."}`},
		{"/containerLogs/shop/web/c?stream=Both", 422, `{"message": "Invalid request."}`},
		{"/containerLogs/shop/web/other", 404, `container "other" not found in pod "web"`},
		{"/containerLogs/shop/gone/c", 404, `pod "gone" does not exist`},
	} {
		w := ask(t, s, c.path, []string{"system:masters"})
		if w.Code != c.code || w.Body.String() != c.want {
			t.Errorf("GET %s: %d %q, want %d %q", c.path, w.Code, w.Body.String(), c.code, c.want)
		}
	}
}

// A log that is followed ends when its container does.
func TestFollowEnds(t *testing.T) {
	dir := t.TempDir()
	ended := running(0)
	ended.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "containerd://now"}}
	if err := os.WriteFile(filepath.Join(dir, "c-0"), []byte("2026-01-02T03:04:05.000000001Z stdout F last words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := ask(t, New(Config{Pods: one{pod: podWith(ended), dir: dir}}), "/containerLogs/shop/web/c?follow=true", []string{"system:masters"})
	b, err := io.ReadAll(w.Body)
	if err != nil || !strings.Contains(string(b), "last words") {
		t.Errorf("%q %v", b, err)
	}
}
