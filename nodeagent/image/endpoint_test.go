package image

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEndpoint(t *testing.T) {
	config := `{"auths":{"r.example.com":{"auth":"dTpo"},"r.example.com/team":{"username":"t","password":"p"},"other":{"username":"o","password":"p"}}}`
	for _, c := range []struct{ name, ca, data, want string }{
		{"nothing", "", "", "[] tls=false"},
		{"basic", "", "username=u,password=geheim", "[{u geheim}] tls=false"},
		{"docker", "", ".dockerconfigjson=" + config, "[{t p} {u h}] tls=false"},
		{"docker of others", "", `.dockerconfigjson={"auths":{"other":{"username":"o","password":"geheim"}}}`, "secret images/pull names no credentials of r.example.com"},
		{"docker damaged", "", `.dockerconfigjson={"auths":{"r.example.com":{"auth":"geheim"}}}`, "secret images/pull has a .dockerconfigjson that cannot be read"},
		{"half", "", "username=geheim", "secret images/pull has only one of username and password"},
		{"half a certificate", "", "tls.key=geheim", "secret images/pull has only one of tls.crt and tls.key"},
		{"no certificate", "", "tls.key=geheim,tls.crt=geheim", "secret images/pull has no pair of certificate and key: tls: failed to find any PEM data in certificate input"},
		{"neither", "", "token=geheim", "secret images/pull has none of .dockerconfigjson, username and password, tls.crt and tls.key"},
		{"ca", "-----BEGIN EC PRIVATE KEY-----\ngeheim==\n-----END EC PRIVATE KEY-----\n", "", "its ca has a ec private key, which does not belong here"},
		{"no ca", "geheim", "", "its ca has something that is no PEM"},
	} {
		var secret *corev1.Secret
		if c.data != "" {
			secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "pull"}, Data: map[string][]byte{}}
			fields := []string{c.data}
			if !strings.HasPrefix(c.data, ".") {
				fields = strings.Split(c.data, ",")
			}
			for _, f := range fields {
				k, v, _ := strings.Cut(f, "=")
				secret.Data[k] = []byte(v)
			}
		}
		e, err := NewEndpoint("r.example.com", c.ca, secret)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%v tls=%v", e.Credentials("r.example.com/team/app:v1"), e.TLS())
			if other := e.Credentials("other/team/app:v1"); len(other) > 0 {
				t.Errorf("%s: another host is shown %v", c.name, other)
			}
		} else if strings.Contains(got, "geheim") {
			t.Errorf("%s: the secret is told: %s", c.name, got)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
