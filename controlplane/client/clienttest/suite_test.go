package clienttest_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
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
	reg, st := openRegistry(t)
	borrowed := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	borrowed.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := apiserver.New(apiserver.Config{
		Store: st, Registry: reg, Authenticator: everybodyIsAdmin{}, Authorizer: everybodyIsAdmin{},
		Log: slog.New(slog.DiscardHandler), Listeners: []net.Listener{l}, Grace: 100 * time.Millisecond,
		TLS: &tls.Config{Certificates: borrowed.TLS.Certificates},
	})
	run(t, srv.Run)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: borrowed.Certificate().Raw})
	c, err := client.NewRemote(client.RemoteConfig{FieldManager: "remote", Config: &rest.Config{
		Host: "https://" + l.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
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
