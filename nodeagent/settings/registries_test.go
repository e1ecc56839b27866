package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func (w *world) secret(password string) {
	w.api.Put(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "pull"},
		Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("u"), "password": []byte(password)}})
}

func shown(s *Settings, host string) string {
	return fmt.Sprint(s.Endpoint(host).Credentials(host + "/x:v1"))
}

// The credentials of a registry come, change and go while the agent runs, and
// are on no disk.
func TestRegistrySecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		spec := &v1alpha1.NodePoolSpec{Registries: []v1alpha1.NodeRegistry{{Host: "r.example.com", Secret: "images/pull"}, {Host: "docker.io", Mirrors: []string{"https://r.example.com"}}}}
		w.pool(spec)
		w.life(func(s *Settings) {
			pass(time.Second)
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: registry r.example.com: there is no secret images/pull")
			w.expect("mirrors", fmt.Sprint(s.Mirrors("docker.io")), "[https://r.example.com]")
			w.secret("geheim")
			pass(time.Second)
			w.expect("condition", w.says(), inForce)
			w.expect("shown", shown(s, "r.example.com"), "[{u geheim}]")
			w.expect("shown to others", shown(s, "docker.io"), "[]")
			before := s.Endpoint("r.example.com")
			pass(time.Hour)
			if s.Endpoint("r.example.com") != before {
				t.Error("another endpoint without a change")
			}
			w.secret("second")
			pass(time.Second)
			w.expect("shown after it was rotated", shown(s, "r.example.com"), "[{u second}]")
			w.secret("")
			pass(time.Second)
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: registry r.example.com: secret images/pull has only one of username and password")
			w.secret("third")
			pass(time.Second)
			w.expect("condition", w.says(), inForce)
			w.api.Break()
			pass(time.Minute)
			w.expect("shown when the watch has ended", shown(s, "r.example.com"), "[{u third}]")
			if err := w.api.Delete(t.Context(), schema.ResourceFor[*corev1.Secret](), schema.Key{Namespace: "images", Name: "pull"}, client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			w.expect("shown after it was deleted", shown(s, "r.example.com"), "[]")
			w.secret("fourth")
			spec.Registries = spec.Registries[1:]
			w.pool(spec)
			pass(time.Second)
			w.expect("shown when nothing is declared", shown(s, "r.example.com"), "[]")
			w.expect("condition", w.says(), inForce)
		})
		b, err := os.ReadFile(filepath.Join(w.dir, "record", recordFile))
		if err != nil || strings.Contains(string(b), "geheim") {
			t.Errorf("%v; the record is %s", err, b)
		}
	})
}

func TestEndpoints(t *testing.T) {
	secret := func(version, password string) Secret {
		return Secret{Secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", ResourceVersion: version},
			Data: map[string][]byte{"username": []byte("u"), "password": []byte(password)}}}
	}
	want := map[string]Host{"r": {Secret: "a/b"}}
	for _, c := range []struct {
		name   string
		hosts  map[string]Host
		secret Secret
		want   string
	}{
		{"nothing", nil, Secret{}, "[]"},
		{"known", want, secret("1", "p"), "[]"},
		{"not known yet", want, Secret{}, "[registry r: secret a/b is not known yet: no server has told of it]"},
		{"another's", want, Secret{Err: apierrors.NewForbidden(corev1.Resource("secrets"), "b", errors.New("no relationship"))},
			"[registry r: secret a/b may not be read by this node: a node that could have chosen its pool by labels that it may give itself reads none of a pool]"},
		{"away", want, Secret{Err: errors.New("no route")}, "[registry r: read secret a/b: no route]"},
		{"a ca that is none", map[string]Host{"r": {CA: "x"}}, Secret{}, "[registry r: its ca has something that is no PEM]"},
	} {
		next, problems := endpoints(c.hosts, map[string]Secret{"a/b": c.secret}, nil)
		if fmt.Sprint(problems) != c.want || len(next) != len(c.hosts) {
			t.Errorf("%s: %v, want %s", c.name, problems, c.want)
		}
	}
}
