package certificates

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
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
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: "one.example.com"}}}}
	for _, c := range []struct {
		name    string
		node    string
		hosts   []string
		serving bool
		want    bool
	}{
		{"its own", "one", []string{"one", "192.0.2.1", "one.example.com"}, true, true},
		{"an address of another", "one", []string{"one", "192.0.2.2"}, true, false},
		{"the name of another", "one", []string{"two"}, true, false},
		{"no such node", "two", []string{"two"}, true, false},
		{"another request", "one", []string{"one"}, false, false},
	} {
		csr := request()
		f := client.NewFake(csr, node)
		a := NewServingApprover(ServingConfig{Tools: controller.Tools{Client: f, Cache: f.Cache()},
			Node: func(*certificatesv1.CertificateSigningRequest) (string, []string, bool) {
				return c.node, c.hosts, c.serving
			}})
		res, err := a.Reconcile(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := client.Get[*certificatesv1.CertificateSigningRequest](t.Context(), f, key)
		if err != nil || has(got, certificatesv1.CertificateApproved) != c.want {
			t.Errorf("%s: %v %v", c.name, got.Status.Conditions, err)
		}
		if again := res.RequeueAfter > 0; again != (c.serving && !c.want) {
			t.Errorf("%s: looked at again: %v", c.name, again)
		}
	}
}
