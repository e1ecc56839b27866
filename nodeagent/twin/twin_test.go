package twin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

var (
	first  = Machine{ID: "11111111111111111111111111111111", UUID: "aaaaaaaa-0000-0000-0000-000000000001"}
	second = Machine{ID: "22222222222222222222222222222222", UUID: "aaaaaaaa-0000-0000-0000-000000000002"}
)

func TestOther(t *testing.T) {
	for _, tt := range []struct {
		a, b Machine
		want bool
	}{
		{first, first, false},
		{first, second, true},
		{Machine{first.ID, first.UUID}, Machine{first.ID, second.UUID}, true}, // copies of a disk
		{Machine{first.ID, first.UUID}, Machine{second.ID, first.UUID}, true}, // installed anew
		{Machine{first.ID, "aaaa"}, Machine{first.ID, "AAAA"}, false},
		{Machine{}, second, false},
		{Machine{ID: first.ID}, Machine{UUID: second.UUID}, false},
		{Machine{ID: first.ID}, second, true},
	} {
		if tt.a.Other(tt.b) != tt.want || tt.b.Other(tt.a) != tt.want {
			t.Errorf("%v, %v: not %v", tt.a, tt.b, tt.want)
		}
	}
}

func node(m Machine, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{MachineID: m.ID, SystemUUID: m.UUID, KernelVersion: "6.12"},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.9"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
	}}
}

func lease(version string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version}}
}

func TestDecide(t *testing.T) {
	other, unknown := node(first, corev1.ConditionTrue), node(first, corev1.ConditionUnknown)
	type look struct {
		at   time.Duration
		node *corev1.Node
		beat *coordinationv1.Lease
		want Verdict
	}
	for name, looks := range map[string][]look{
		"no node":           {{0, nil, nil, Ours}},
		"made by a person":  {{0, node(Machine{}, ""), nil, Ours}},
		"started again":     {{0, node(second, corev1.ConditionTrue), lease("1"), Ours}},
		"lives":             {{0, other, lease("1"), Unknown}, {5, other, lease("1"), Unknown}, {10, other, lease("2"), Taken}, {49, other, lease("2"), Taken}},
		"lives, then dies":  {{0, other, lease("1"), Unknown}, {10, other, lease("2"), Taken}, {50, other, lease("2"), Free}},
		"silent":            {{0, other, lease("1"), Unknown}, {39, other, lease("1"), Unknown}, {40, other, lease("1"), Free}},
		"no lease":          {{0, other, nil, Unknown}, {40, other, nil, Free}},
		"its lease comes":   {{0, other, nil, Unknown}, {10, other, lease("1"), Taken}},
		"given up":          {{0, unknown, lease("1"), Free}},
		"given up, returns": {{0, other, lease("1"), Unknown}, {5, unknown, lease("2"), Taken}, {10, other, lease("2"), Taken}},
		"deleted":           {{0, other, lease("1"), Unknown}, {10, other, lease("2"), Taken}, {15, nil, lease("2"), Ours}},
		"a third was faster": {{0, node(Machine{ID: "3"}, ""), lease("1"), Unknown}, {39, node(Machine{ID: "4"}, ""), lease("1"), Unknown},
			{50, node(Machine{ID: "4"}, ""), lease("1"), Unknown}},
	} {
		var s Seen
		var v Verdict
		for i, l := range looks {
			if v, s = Decide(s, l.node, l.beat, second, time.Hour+l.at*time.Second, Silence); v != l.want {
				t.Errorf("%s: look %d: %s, want %s", name, i, v, l.want)
			}
		}
	}
}

// said is a log that is read while it is written.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// scene is a cluster in which n1 is the first machine, and the second comes.
type scene struct {
	t    *testing.T
	api  client.Interface
	unit time.Duration // what stands for a second
	log  said
	done chan error
}

func newScene(t *testing.T, api client.Interface, unit time.Duration) *scene {
	s := &scene{t: t, api: api, unit: unit, done: make(chan error, 8)}
	n, err := client.Create(t.Context(), api, node(first, corev1.ConditionTrue), client.WriteOptions{})
	if err == nil { // a server takes no status with a new Node
		n = n.DeepCopy()
		n.Status = node(first, corev1.ConditionTrue).Status
		_, err = client.Update(t.Context(), api, n, client.WriteOptions{Subresource: "status"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.beat()
	return s
}

// beat is a sign of life of the first machine.
func (s *scene) beat() {
	s.t.Helper()
	key := schema.Key{Namespace: corev1.NamespaceNodeLease, Name: "n1"}
	now := metav1.NewMicroTime(time.Now())
	l, err := client.Get[*coordinationv1.Lease](s.t.Context(), s.api, key)
	if apierrors.IsNotFound(err) {
		_, err = client.Create(s.t.Context(), s.api, &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("n1"), RenewTime: &now}}, client.WriteOptions{})
	} else if err == nil {
		l = l.DeepCopy()
		l.Spec.RenewTime = &now
		_, err = client.Update(s.t.Context(), s.api, l, client.WriteOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// arrive lets the second machine ask for the name.
func (s *scene) arrive(m Machine) *Name {
	n := New(Config{NodeName: "n1", Client: s.api, Machine: m, Log: slog.New(slog.NewTextHandler(&s.log, nil))})
	n.silence, n.look = 40*s.unit, 5*s.unit
	ctx, cancel := context.WithCancel(s.t.Context())
	end := make(chan struct{})
	go func() {
		s.done <- n.Wait(ctx)
		close(end)
	}()
	s.t.Cleanup(func() { cancel(); <-end })
	return n
}

func (s *scene) waits() {
	s.t.Helper()
	select {
	case err := <-s.done:
		s.t.Fatalf("it has the name of a machine that lives: %v\n%s", err, &s.log)
	default:
	}
}

func (s *scene) takes() {
	s.t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Fatal(err)
		}
	case <-time.After(200 * s.unit):
		s.t.Fatalf("it never gets the name\n%s", &s.log)
	}
}

func (s *scene) machine() Machine {
	n, err := client.Get[*corev1.Node](s.t.Context(), s.api, schema.Key{Name: "n1"})
	if err != nil {
		s.t.Fatal(err)
	}
	return of(n)
}

// story: the second machine waits while the first lives, says so, and has the name
// when the first is silent.
func (s *scene) story() {
	n := s.arrive(second)
	for range 12 {
		time.Sleep(10 * s.unit)
		s.beat()
		s.waits()
	}
	const why = "another machine at 192.0.2.9 is node n1 (machine ID 11111111111111111111111111111111, board aaaaaaaa-0000-0000-0000-000000000001), " +
		"so this one (machine ID 22222222222222222222222222222222, board aaaaaaaa-0000-0000-0000-000000000002) is not: give one of them another name, by nodeName in node.yaml or --node-name"
	if got := s.log.String(); strings.Count(got, why) != 1 || strings.Count(got, "level=WARN") != 1 {
		s.t.Errorf("said:\n%s", got)
	}
	events, err := client.ListAll[*corev1.Event](s.t.Context(), s.api, client.ListOptions{})
	if err != nil || len(events) != 1 || events[0].Reason != Reason || events[0].Type != corev1.EventTypeWarning || events[0].Message != why || events[0].InvolvedObject.Name != "n1" {
		s.t.Errorf("events: %+v, %v", events, err)
	}
	if s.machine() != first {
		s.t.Errorf("the node is %s", s.machine())
	}
	if err := n.Check(s.t.Context()); err == nil || err.Error() != why {
		s.t.Errorf("check: %v", err)
	}
	s.takes()
	if s.machine() != second {
		s.t.Errorf("the node is %s", s.machine())
	}
	// The first comes back, and finds its name taken.
	back := New(Config{NodeName: "n1", Client: s.api, Machine: first})
	var taken *TakenError
	if err := back.Check(s.t.Context()); !errors.As(err, &taken) || taken.Machine != second {
		s.t.Errorf("the first: %v", err)
	}
	if err := n.Check(s.t.Context()); err != nil {
		s.t.Errorf("the second: %v", err)
	}
}

func TestFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { newScene(t, client.NewFake(), time.Second).story() })
}

func TestServer(t *testing.T) { newScene(t, openServer(t), 10*time.Millisecond).story() }

// Of many that wait for one name, one gets it.
func TestMany(t *testing.T) {
	s := newScene(t, openServer(t), 10*time.Millisecond)
	for _, id := range []string{"2", "3", "4", "5"} {
		s.arrive(Machine{ID: id})
	}
	s.takes()
	time.Sleep(20 * s.unit)
	s.waits()
}

// A Node that is deleted leaves its name at once, and one that the control plane
// has given up does too.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, client.NewFake(), time.Second)
		s.arrive(second)
		for range 6 {
			time.Sleep(10 * time.Second)
			s.beat()
		}
		s.waits()
		if err := client.Delete[*corev1.Node](t.Context(), s.api, schema.Key{Name: "n1"}, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		s.takes()
	})
	synctest.Test(t, func(t *testing.T) {
		api := client.NewFake(node(first, corev1.ConditionUnknown))
		s := &scene{t: t, api: api, unit: time.Second, done: make(chan error, 8)}
		s.arrive(second)
		synctest.Wait()
		s.takes()
		if s.machine() != second {
			t.Errorf("the node is %s", s.machine())
		}
	})
}

// A server that does not answer is asked again.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := client.NewFake(node(second, corev1.ConditionTrue))
		s := &scene{t: t, api: away{api, time.Now()}, unit: time.Second, done: make(chan error, 8)}
		s.arrive(second)
		time.Sleep(9 * time.Minute)
		s.waits()
		s.takes()
		if got := s.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `err="read node n1: no route to host"`) {
			t.Errorf("said:\n%s", got)
		}
	})
}

// away is a server that answers after ten minutes.
type away struct {
	client.Interface
	since time.Time
}

func (a away) Get(ctx context.Context, r *schema.Resource, key schema.Key) (schema.Object, error) {
	if time.Since(a.since) < 550*time.Second {
		return nil, errors.New("no route to host")
	}
	return a.Interface.Get(ctx, r, key)
}

var admin = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}

type everybodyIsAdmin struct{}

func (everybodyIsAdmin) Authenticate(*http.Request) (user.Info, bool, error) { return admin, true, nil }

func (everybodyIsAdmin) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// openServer runs a whole API server over its store, and returns a client of it.
func openServer(t *testing.T) client.Interface {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st := store.New(store.Config{Dir: t.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	reg := registry.New(registry.Config{Store: st, Log: log})
	run(t, st.Run)
	<-st.Ready()
	borrowed := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	borrowed.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run(t, apiserver.New(apiserver.Config{Store: st, Registry: reg, Authenticator: everybodyIsAdmin{}, Authorizer: everybodyIsAdmin{},
		Log: log, Listeners: []net.Listener{l}, Grace: 100 * time.Millisecond, TLS: &tls.Config{Certificates: borrowed.TLS.Certificates}}).Run)
	c, err := client.NewRemote(client.RemoteConfig{FieldManager: "kubelet", Config: &rest.Config{Host: "https://" + l.Addr().String(),
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: borrowed.Certificate().Raw})}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{metav1.NamespaceDefault, corev1.NamespaceNodeLease} {
		if _, err := client.Create(t.Context(), c, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: ns}}, client.WriteOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return c
}

func run(t *testing.T, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
	})
}

// A machine stays the same one when the system calls it something else.
func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	first, err := Keep(dir, os.WriteFile)
	if err != nil || first != This() {
		t.Fatalf("%v, %v", first, err)
	}
	path := filepath.Join(dir, "machine-id")
	if kept := firstLine(path); kept != first.ID {
		t.Errorf("kept %q of %q", kept, first.ID)
	}
	if err := os.WriteFile(path, []byte("1111\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Keep(dir, os.WriteFile); err != nil || again.ID != "1111" || again.UUID != first.UUID {
		t.Errorf("%v, %v", again, err)
	}
	errFull := errors.New("no space left on device")
	if first.ID == "" {
		t.Skip("this machine has no ID")
	}
	if _, err := Keep(t.TempDir(), func(string, []byte, os.FileMode) error { return errFull }); !errors.Is(err, errFull) {
		t.Error(err)
	}
	for uuid, want := range map[string]string{
		"00000000-0000-0000-0000-000000000000": "", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF": "", "": "",
		"03000200-0400-0500-0006-000700080009": "03000200-0400-0500-0006-000700080009",
	} {
		if got := board(uuid); got != want {
			t.Errorf("board %q: %q", uuid, got)
		}
	}
}
