package encryption

import (
	"bytes"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

var _ store.Sealer = Sealer{}

func TestSealer(t *testing.T) {
	s := Sealer{open(t, keyed("aesgcm", "k1="+key(1))+"  - identity: {}\n")}
	secrets := schema.ResourceFor[*corev1.Secret]()
	sealed, err := s.Seal(secrets, secretKey, plain)
	if err != nil || !bytes.HasPrefix(sealed, []byte("k8s:enc:aesgcm:v1:k1:")) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, stale, err := s.Open(secrets, secretKey, sealed); err != nil || stale || !bytes.Equal(got, plain) {
		t.Errorf("%q, %v", got, err)
	}
	if got, _, err := s.Open(secrets, secretKey+"x", sealed); err == nil {
		t.Errorf("moved: %q", got)
	}
	if got, stale, err := s.Open(secrets, secretKey, plain); err != nil || !stale || !bytes.Equal(got, plain) {
		t.Errorf("never sealed: %q, %v", got, err)
	}
	if got, err := s.Seal(schema.ResourceFor[*corev1.ConfigMap](), "/registry/configmaps/a/b", plain); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%q, %v", got, err)
	}
	if got := nameOf(schema.ResourceFor[*appsv1.Deployment]()); got != "deployments.apps" {
		t.Errorf("named %s", got)
	}
}
