package clusterinfo

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run lets the controller work on objects while do does something.
func run(t *testing.T, do func(ctx context.Context, f *client.Fake), objects ...schema.Object) {
	t.Helper()
	controllertest.Bubble(t, func(tools controller.Tools) *Controller {
		return New(Config{Tools: tools, Server: "https://192.0.2.1:6443", Inside: inside, CA: []byte("authority")})
	}, do, append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})...)
}

const inside = "https://10.244.0.1:6443"

func published(t *testing.T, f *client.Fake) *corev1.ConfigMap {
	t.Helper()
	cm, err := client.Get[*corev1.ConfigMap](t.Context(), f, info)
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

func TestNewCluster(t *testing.T) {
	run(t, func(ctx context.Context, f *client.Fake) {
		config, err := clientcmd.Load([]byte(published(t, f).Data["kubeconfig"]))
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Clusters[""]; c == nil || c.Server != "https://192.0.2.1:6443" || string(c.CertificateAuthorityData) != "authority" {
			t.Errorf("cluster %+v", c)
		}
		if len(config.AuthInfos)+len(config.Contexts) > 0 {
			t.Errorf("it names somebody: %+v", config)
		}
		role, err := client.Get[*rbacv1.Role](ctx, f, access)
		if err != nil || len(role.Rules) != 1 || role.Rules[0].ResourceNames[0] != "cluster-info" || len(role.Rules[0].Verbs) != 1 {
			t.Errorf("role %+v, %v", role, err)
		}
		binding, err := client.Get[*rbacv1.RoleBinding](ctx, f, access)
		if err != nil || binding.RoleRef.Name != reader || binding.Subjects[0].Name != "system:anonymous" {
			t.Errorf("binding %+v, %v", binding, err)
		}
	})
}

// What was deleted comes back; signatures stay beside a new kubeconfig; what
// somebody has written stays.
func TestComesBack(t *testing.T) {
	run(t, func(ctx context.Context, f *client.Fake) {
		for _, o := range []schema.Object{&corev1.ConfigMap{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
			r := f.Catalog.Load().ResourceOf(o)
			key := access
			if r.Kind == "ConfigMap" {
				key = info
			}
			if err := f.Delete(ctx, r, key, client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if _, err := f.Get(ctx, r, key); err != nil {
				t.Error(err)
			}
		}
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-public"}}
	cm := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: info.Namespace, Name: info.Name}, Data: data}
	}
	run(t, func(_ context.Context, f *client.Fake) {
		if d := published(t, f).Data; d["jws-kubeconfig-abcdef"] != "x" || d["kubeconfig"] == "" {
			t.Errorf("%v", d)
		}
	}, ns, cm(map[string]string{"jws-kubeconfig-abcdef": "x"}))
	run(t, func(_ context.Context, f *client.Fake) {
		if d := published(t, f).Data; d["kubeconfig"] != "mine" {
			t.Errorf("%v", d)
		}
	}, ns, cm(map[string]string{"kubeconfig": "mine"}))
}

// TestReachable: what was published while other machines did not reach the
// server is replaced; the address of somebody's load balancer is not.
func TestReachable(t *testing.T) {
	for server, want := range map[string]string{inside: "https://192.0.2.1:6443", "https://lb.example.com": "https://lb.example.com"} {
		text, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: server}}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, func(_ context.Context, f *client.Fake) {
			cm := published(t, f)
			config, err := clientcmd.Load([]byte(cm.Data["kubeconfig"]))
			if err != nil || config.Clusters[""].Server != want || cm.Data["jws-kubeconfig-abcdef"] != "signed" {
				t.Errorf("%s: %v %v", server, cm.Data, err)
			}
		}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: info.Namespace, Name: info.Name},
			Data: map[string]string{"kubeconfig": string(text), "jws-kubeconfig-abcdef": "signed"}})
	}
}

// TestReplace: an address that was published by a server gives way when that
// server is gone; somebody's does not.
func TestReplace(t *testing.T) {
	const first, self, lb = "https://192.0.2.1:6443", "https://192.0.2.2:6443", "https://lb.example.com"
	both, alone := []string{first, self}, []string{self}
	for _, c := range []struct {
		name, published, noted string
		servers                []string
		want                   bool
	}{
		{"its own", self, self, alone, false},
		{"its own, not noted yet", self, "", alone, true},
		{"another server's, which is there", first, first, both, false},
		{"another server's, which is gone", first, first, alone, true},
		{"another server's, and this one is alone since ever", first, first, nil, false},
		{"an address of before, not noted", first, "", alone, false},
		{"the pods' address", inside, "", nil, true},
		{"a load balancer's", lb, first, alone, false},
	} {
		if got := replace(c.published, c.noted, self, inside, c.servers); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestServerGone: whoever leads publishes itself in the place of a server that is
// there no more, also when that ends while it leads.
func TestServerGone(t *testing.T) {
	const first, self = "https://192.0.2.1:6443", "https://192.0.2.2:6443"
	text, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: first}}})
	if err != nil {
		t.Fatal(err)
	}
	var servers atomic.Pointer[[]string]
	servers.Store(&[]string{first, self})
	controllertest.Bubble(t, func(tools controller.Tools) *Controller {
		return New(Config{Tools: tools, Server: self, Inside: inside, CA: []byte("authority"), Servers: func() []string { return *servers.Load() }, Again: 15 * time.Second})
	}, func(_ context.Context, f *client.Fake) {
		at := func() string {
			cfg, err := clientcmd.Load([]byte(published(t, f).Data["kubeconfig"]))
			if err != nil {
				t.Fatal(err)
			}
			return cfg.Clusters[""].Server
		}
		if at() != first {
			t.Errorf("published %s while %s is there", at(), first)
		}
		servers.Store(&[]string{self})
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		if at() != self {
			t.Errorf("published %s, which is gone", at())
		}
	}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-public"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: info.Namespace, Name: info.Name, Annotations: map[string]string{publishedServer: first}},
			Data: map[string]string{"kubeconfig": string(text)}})
}
