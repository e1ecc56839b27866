package certificates

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func clock() time.Time { return now }

func request(conditions ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{Kind: "CertificateSigningRequest", APIVersion: "certificates.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "csr", UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Username: "system:node:one", SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName},
	}
	for _, c := range conditions {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: c, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(now.Add(-30 * time.Minute))})
	}
	return csr
}

var key = schema.Key{Name: "csr"}

func read(t *testing.T, f *client.Fake) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr, err := client.Get[*certificatesv1.CertificateSigningRequest](t.Context(), f, key)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func TestSigner(t *testing.T) {
	signed := request(certificatesv1.CertificateApproved)
	signed.Status.Certificate = []byte("old")
	for _, c := range []struct {
		name    string
		csr     *certificatesv1.CertificateSigningRequest
		mine    bool
		refusal string
		err     error
		want    string // of the certificate
		failed  bool
	}{
		{name: "pending", csr: request(), mine: true},
		{name: "approved", csr: request(certificatesv1.CertificateApproved), mine: true, want: "new"},
		{name: "denied after all", csr: request(certificatesv1.CertificateApproved, certificatesv1.CertificateDenied), mine: true},
		{name: "failed before", csr: request(certificatesv1.CertificateApproved, certificatesv1.CertificateFailed), mine: true, failed: true},
		{name: "another's", csr: request(certificatesv1.CertificateApproved)},
		{name: "refused", csr: request(certificatesv1.CertificateApproved), mine: true, refusal: "usages did not match", failed: true},
		{name: "signed", csr: signed, mine: true, want: "old"},
		{name: "error", csr: request(certificatesv1.CertificateApproved), mine: true, err: errors.New("no key")},
	} {
		f := client.NewFake(c.csr)
		s := NewSigner(SignerConfig{Tools: controller.Tools{Client: f, Cache: f.Cache(), Clock: clock}, Sign: func(*certificatesv1.CertificateSigningRequest) ([]byte, bool, string, error) {
			return []byte("new"), c.mine, c.refusal, c.err
		}})
		if _, err := s.Reconcile(t.Context(), key); (err != nil) != (c.err != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		got := read(t, f)
		if string(got.Status.Certificate) != c.want || has(got, certificatesv1.CertificateFailed) != c.failed {
			t.Errorf("%s: certificate %q, conditions %+v", c.name, got.Status.Certificate, got.Status.Conditions)
		}
	}
}

func TestApprover(t *testing.T) {
	stranger := request()
	stranger.Spec.Username = "system:bootstrap:abcdef"
	for _, c := range []struct {
		name    string
		csr     *certificatesv1.CertificateSigningRequest
		node    bool
		may     []string
		want    bool
		message string
	}{
		{"self", request(), true, []string{"selfnodeclient"}, true, "Auto approving self kubelet client certificate after SubjectAccessReview."},
		{"another", stranger, true, []string{"nodeclient"}, true, "Auto approving kubelet client certificate after SubjectAccessReview."},
		{"another as self", stranger, true, []string{"selfnodeclient"}, false, ""},
		{"no right", request(), true, nil, false, ""},
		{"no kubelet", request(), false, []string{"nodeclient", "selfnodeclient"}, false, ""},
		{"denied", request(certificatesv1.CertificateDenied), true, []string{"selfnodeclient"}, false, ""},
	} {
		f := client.NewFake(c.csr)
		a := NewApprover(ApproverConfig{Tools: controller.Tools{Client: f, Cache: f.Cache(), Clock: clock},
			Node: func(*certificatesv1.CertificateSigningRequest) (string, bool) { return "system:node:one", c.node },
			Allowed: func(_ context.Context, _ *certificatesv1.CertificateSigningRequest, sub string) (bool, error) {
				return slices.Contains(c.may, sub), nil
			}})
		if _, err := a.Reconcile(t.Context(), key); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := read(t, f)
		if has(got, certificatesv1.CertificateApproved) != c.want {
			t.Errorf("%s: conditions %+v", c.name, got.Status.Conditions)
		}
		if c.want && (got.Status.Conditions[0].Reason != "AutoApproved" || got.Status.Conditions[0].Message != c.message) {
			t.Errorf("%s: condition %+v", c.name, got.Status.Conditions[0])
		}
	}
}

func TestCleaner(t *testing.T) {
	issued := request(certificatesv1.CertificateApproved)
	issued.Status.Certificate = []byte("not even PEM")
	for _, c := range []struct {
		name string
		csr  *certificatesv1.CertificateSigningRequest
		keep time.Duration
	}{
		{"pending", request(), 22 * time.Hour},
		{"approved, not issued", request(certificatesv1.CertificateApproved), 22 * time.Hour},
		{"issued", issued, 30 * time.Minute},
		{"denied", request(certificatesv1.CertificateDenied), 30 * time.Minute},
		{"failed", request(certificatesv1.CertificateFailed), 30 * time.Minute},
	} {
		f := client.NewFake(c.csr)
		at := now
		cl := NewCleaner(controller.Tools{Client: f, Cache: f.Cache(), Clock: func() time.Time { return at }})
		res, err := cl.Reconcile(t.Context(), key)
		if err != nil || res.RequeueAfter != c.keep {
			t.Errorf("%s: kept for %v, %v, want %v", c.name, res.RequeueAfter, err, c.keep)
		}
		read(t, f)
		at = now.Add(c.keep)
		if _, err := cl.Reconcile(t.Context(), key); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := client.Get[*certificatesv1.CertificateSigningRequest](t.Context(), f, key); !apierrors.IsNotFound(err) {
			t.Errorf("%s: still there: %v", c.name, err)
		}
	}
}

func TestServingApprover(t *testing.T) {
	machine := func(name string, status corev1.ConditionStatus, addresses ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return n
	}
	all := []*corev1.Node{
		machine("one", corev1.ConditionTrue, "192.0.2.1", "one.example.com", "10.96.0.1", "192.0.2.9", "192.0.2.8"),
		machine("kubernetes", corev1.ConditionTrue, "192.0.2.7"),
		machine("lives", corev1.ConditionTrue, "192.0.2.9"), machine("silent", corev1.ConditionUnknown, "192.0.2.8"),
	}
	const pending, approved, denied = "", "Approved", "Denied"
	for _, c := range []struct {
		name    string
		node    string
		hosts   []string
		serving bool
		want    string
	}{
		{"its own", "one", []string{"one", "192.0.2.1", "one.example.com"}, true, approved},
		{"an address of another", "one", []string{"one", "192.0.2.2"}, true, pending},
		{"the name of another", "one", []string{"two"}, true, pending},
		{"no such node", "two", []string{"two"}, true, pending},
		{"another request", "one", []string{"one"}, false, pending},
		{"an address that it has taken from a node that lives", "one", []string{"one", "192.0.2.9"}, true, pending},
		{"an address of a node that is silent", "one", []string{"one", "192.0.2.8"}, true, approved},
		{"the range of Services", "one", []string{"one", "10.96.0.1"}, true, denied},
		{"a name of the API server", "one", []string{"one", "kubernetes"}, true, denied},
		{"a node of that name", "kubernetes", []string{"192.0.2.7"}, true, denied},
	} {
		csr := request()
		objects := []schema.Object{csr}
		for _, n := range all {
			objects = append(objects, n.DeepCopy())
		}
		f := client.NewFake(objects...)
		a := NewServingApprover(ServingConfig{Tools: controller.Tools{Client: f, Cache: f.Cache(), Clock: clock},
			Node: func(*certificatesv1.CertificateSigningRequest) (string, []string, bool) {
				return c.node, c.hosts, c.serving
			},
			Barred: func(host string) string {
				return map[string]string{"kubernetes": "it is the API server's", "10.96.0.1": "it is of the range of Services"}[host]
			}})
		res, err := a.Reconcile(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := client.Get[*certificatesv1.CertificateSigningRequest](t.Context(), f, key)
		if err != nil || has(got, certificatesv1.CertificateApproved) != (c.want == approved) || has(got, certificatesv1.CertificateDenied) != (c.want == denied) {
			t.Errorf("%s: %v %v", c.name, got.Status.Conditions, err)
		}
		if again := res.RequeueAfter > 0; again != (c.serving && c.want == pending) {
			t.Errorf("%s: looked at again: %v", c.name, again)
		}
	}
}

// TestTaken: a token makes no machine a node that others are.
func TestTaken(t *testing.T) {
	node := func(status corev1.ConditionStatus, annotations ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one", Annotations: map[string]string{}}}
		n.Status.NodeInfo.KubeletVersion = "v1"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		for _, a := range annotations {
			n.Annotations[a] = ""
		}
		return n
	}
	lease := func(ago time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: "one"}}
		l.Spec.RenewTime = &at
		return l
	}
	declared := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	for _, c := range []struct {
		name  string
		node  *corev1.Node
		lease *coordinationv1.Lease
		self  bool
		want  bool // approved
	}{
		{"a new name", nil, nil, false, true},
		{"a node that lives", node(corev1.ConditionTrue), lease(time.Second), false, false},
		{"itself, to renew", node(corev1.ConditionTrue), lease(time.Second), true, true},
		{"a node that is not ready", node(corev1.ConditionFalse), lease(time.Second), false, false},
		{"a node that starts again", node(corev1.ConditionUnknown), lease(time.Minute), false, false},
		{"a node that is marked, and lives", node(corev1.ConditionTrue, GivenUpAnnotation), lease(time.Second), false, false},
		{"a node that is marked, and silent", node(corev1.ConditionUnknown, GivenUpAnnotation), lease(time.Minute), false, true},
		{"a node that was deleted, and lives", nil, lease(time.Second), false, false},
		{"a node that was deleted, and is silent", nil, lease(time.Minute), false, true},
		{"a Node that was made for a machine to come", declared, nil, false, true},
		{"a server", nil, nil, false, false},
	} {
		csr := request()
		if !c.self {
			csr.Spec.Username = "system:bootstrap:abcdef"
		}
		objects := []schema.Object{csr}
		if c.node != nil {
			objects = append(objects, c.node.DeepCopy())
		}
		if c.lease != nil {
			objects = append(objects, c.lease)
		}
		f := client.NewFake(objects...)
		a := NewApprover(ApproverConfig{Tools: controller.Tools{Client: f, Cache: f.Cache(), Clock: clock},
			Node:   func(*certificatesv1.CertificateSigningRequest) (string, bool) { return "system:node:one", true },
			Server: func(string) bool { return c.name == "a server" },
			Allowed: func(context.Context, *certificatesv1.CertificateSigningRequest, string) (bool, error) {
				return true, nil
			}})
		if _, err := a.Reconcile(t.Context(), key); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := read(t, f); has(got, certificatesv1.CertificateApproved) != c.want {
			t.Errorf("%s: %+v", c.name, got.Status.Conditions)
		}
	}
}

// TestReserved: no node is called as an API server is.
func TestReserved(t *testing.T) {
	f := client.NewFake(request())
	a := NewApprover(ApproverConfig{Tools: controller.Tools{Client: f, Cache: f.Cache(), Clock: clock},
		Node: func(*certificatesv1.CertificateSigningRequest) (string, bool) { return "system:node:kubernetes", true },
		Allowed: func(context.Context, *certificatesv1.CertificateSigningRequest, string) (bool, error) {
			return true, nil
		},
		Reserved: func(name string) string { return "the name " + name + " is reserved" }})
	if _, err := a.Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := read(t, f); !has(got, certificatesv1.CertificateDenied) || got.Status.Conditions[0].Message != "No node is called kubernetes: the name kubernetes is reserved." {
		t.Errorf("%+v", got.Status.Conditions)
	}
}
