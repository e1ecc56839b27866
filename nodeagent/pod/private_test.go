package pod

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
	"github.com/writ-os/writ/schema"
)

// pullSecrets has one pull secret, of the registry r.example, in namespace "mine".
type pullSecrets struct{}

func (pullSecrets) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return nil, errors.New("none")
}

func (pullSecrets) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if namespace != "mine" {
		return nil, errors.New("not found")
	}
	return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"r.example":{"username":"u","password":%q}}}`, name),
	}}, nil
}

// A private image that one namespace has pulled does not serve another.
func TestPrivateImageOfAnotherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &shortTokens{}, does)
		n.fake = fake.New(fake.Config{
			Missing: func(string) bool { return true },
			Pull: func(ref string, creds []image.Credentials) error {
				if ref != "r.example/public:v1" && (len(creds) == 0 || creds[0].Password != "right") {
					return errors.New("401 Unauthorized")
				}
				return nil
			},
		})
		n.pods.cfg.Runtime, n.pods.cfg.Images, n.pods.cfg.Objects = n.fake, n.fake, pullSecrets{}
		n.pods.cfg.Puller = image.NewPuller(n.fake, 0)
		n.pods.cfg.Puller.Pulls = image.NewPulls(t.TempDir())
		make := func(namespace, name, img, secret string, policy corev1.PullPolicy) *corev1.Pod {
			p := aPod("runs")
			p.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}
			p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = img, policy
			if secret != "" {
				p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret}}
			}
			return p
		}
		n.run([]*corev1.Pod{
			make("mine", "owner", "r.example/private:v1", "right", corev1.PullIfNotPresent),
			make("mine", "public", "r.example/public:v1", "", corev1.PullIfNotPresent),
		}, func() {
			time.Sleep(time.Minute)
			for _, c := range []struct {
				pod     *corev1.Pod
				waiting string
			}{
				{make("other", "thief", "r.example/private:v1", "right", corev1.PullIfNotPresent), ReasonErrImagePull},
				{make("other", "never", "r.example/private:v1", "", corev1.PullNever), ReasonErrImageNeverPull},
				{make("mine", "wrong", "r.example/private:v1", "wrong", corev1.PullIfNotPresent), ReasonErrImagePull},
				{make("mine", "again", "r.example/private:v1", "right", corev1.PullNever), ""},
				{make("other", "reader", "r.example/public:v1", "", corev1.PullIfNotPresent), ""},
			} {
				n.api.Put(c.pod)
				time.Sleep(time.Second)
				p, err := client.Get[*corev1.Pod](t.Context(), n.api, schema.KeyOf(c.pod))
				if err != nil || len(p.Status.ContainerStatuses) != 1 {
					t.Fatalf("%s: %v %+v", c.pod.Name, err, p.Status)
				}
				st, got := p.Status.ContainerStatuses[0].State, ""
				if st.Waiting != nil {
					got = st.Waiting.Reason
				}
				if got != c.waiting || (st.Running != nil) != (c.waiting == "") {
					t.Errorf("%s: %+v, want %q", c.pod.Name, st, c.waiting)
				}
			}
		})
	})
}
