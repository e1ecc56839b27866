package clienttest_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/client/clienttest"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

var admin = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}

func TestFake(t *testing.T) {
	clienttest.RunBackend(t, t.Context(), func(t *testing.T) client.Backend { return client.NewFake(defaultNamespace()) })
}

func TestRegistry(t *testing.T) {
	ctx := request.WithUser(t.Context(), admin)
	clienttest.RunBackend(t, ctx, func(t *testing.T) client.Backend {
		reg, _ := openRegistry(t)
		return reg
	})
}

func TestLocal(t *testing.T) {
	clienttest.RunBackend(t, t.Context(), func(t *testing.T) client.Backend {
		reg, _ := openRegistry(t)
		return client.Local(reg, admin, "local")
	})
}

func TestRemote(t *testing.T) {
	clienttest.Run(t, t.Context(), func(t *testing.T) client.Interface { return openRemote(t) })
}

// A watch outlives its connection: nobody notices, nothing is missed.
func TestRemoteWatchOutlivesItsConnection(t *testing.T) {
	c, cut := openBreakable(t)
	maps := schema.ResourceFor[*corev1.ConfigMap]()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w, err := c.Watch(ctx, maps, client.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if ev := <-w.Events(); !ev.InitialEventsEnd {
		t.Fatalf("first event: %+v", ev)
	}
	for i := range 5 {
		cut()
		name := fmt.Sprint("m", i)
		var err error
		for range 10 { // a write on a connection that was cut may fail
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			if _, err = client.Create(ctx, c, o, client.WriteOptions{}); err == nil || apierrors.IsAlreadyExists(err) {
				err = nil
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		ev := <-w.Events()
		for ev.Type == client.Bookmark {
			ev = <-w.Events()
		}
		if ev.Type != client.Added || ev.Object.GetName() != name {
			t.Fatalf("event after cut %d: %v %v %v", i, ev.Type, ev.Object, ev.Err)
		}
	}
}

// A place that the server has forgotten is an error that says so.
func TestRemoteWatchExpires(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old resource version")
	gone.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	for name, inStream := range map[string]bool{"at once": false, "in the stream": true} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				status, err := json.Marshal(gone.ErrStatus)
				if err != nil {
					t.Error(err)
				}
				if !inStream {
					w.WriteHeader(http.StatusGone)
					if _, err := w.Write(status); err != nil {
						t.Error(err)
					}
					return
				}
				fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", status)
			}))
			defer srv.Close()
			c, err := client.NewRemote(client.RemoteConfig{Config: &rest.Config{Host: srv.URL}})
			if err != nil {
				t.Fatal(err)
			}
			w, err := c.Watch(t.Context(), schema.ResourceFor[*corev1.ConfigMap](), client.WatchOptions{ResourceVersion: "5"})
			if err == nil {
				ev := <-w.Events()
				if ev.Type != client.Error {
					t.Fatalf("event: %+v", ev)
				}
				err = ev.Err
				if _, open := <-w.Events(); open {
					t.Error("the watch goes on after its error")
				}
			}
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func defaultNamespace() *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "default"}}
}

// openRegistry runs a registry over a real store until the test is over.
func openRegistry(t *testing.T) (*registry.Registry, *store.Store) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st := store.New(store.Config{Dir: t.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	reg := registry.New(registry.Config{Store: st, Log: log})
	run(t, st.Run)
	<-st.Ready()
	if _, err := client.Create(t.Context(), client.Local(reg, admin, "test"), defaultNamespace(), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return reg, st
}

// openRemote runs a whole API server and returns a client of it over TLS.
func openRemote(t *testing.T) *client.RemoteClient {
	t.Helper()
	c, _ := openBreakable(t)
	return c
}

// openBreakable also returns a function that cuts all connections.
func openBreakable(t *testing.T) (c *client.RemoteClient, cut func()) {
	t.Helper()
	reg, st := openRegistry(t)
	borrowed := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	borrowed.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wire := &breakable{Listener: l}
	srv := apiserver.New(apiserver.Config{
		Store: st, Registry: reg, Authenticator: everybodyIsAdmin{}, Authorizer: everybodyIsAdmin{},
		Log: slog.New(slog.DiscardHandler), Listeners: []net.Listener{wire}, Grace: 100 * time.Millisecond,
		TLS: &tls.Config{Certificates: borrowed.TLS.Certificates},
	})
	run(t, srv.Run)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: borrowed.Certificate().Raw})
	c, err = client.NewRemote(client.RemoteConfig{FieldManager: "remote", Config: &rest.Config{
		Host: "https://" + l.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, wire.cut
}

// breakable is a listener whose connections can be cut.
type breakable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (b *breakable) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err == nil {
		b.mu.Lock()
		b.conns = append(b.conns, c)
		b.mu.Unlock()
	}
	return c, err
}

func (b *breakable) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
	b.conns = nil
}

type everybodyIsAdmin struct{}

func (everybodyIsAdmin) Authenticate(*http.Request) (user.Info, bool, error) { return admin, true, nil }

func (everybodyIsAdmin) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// run starts a part that ends with the test.
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
