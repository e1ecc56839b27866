package registry

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// component is a user who is a part of this process.
type component struct{ user.DefaultInfo }

func (*component) InProcess() {}

// asComponent returns a context of a part of this process.
func asComponent(name string) context.Context {
	return request.WithUser(context.Background(), &component{user.DefaultInfo{Name: name}})
}

// TestOnlyPartsAreTrusted: what a user is called, as by impersonation, opens no
// way around the schema.
func TestOnlyPartsAreTrusted(t *testing.T) {
	g, _ := open(t, t.TempDir())
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		refused bool
	}{
		{"part", asComponent(user.KubeControllerManager), false},
		{"reconciler", asComponent("system:writ:reconciler"), true},
		{"namesake", as(user.KubeControllerManager, user.SystemPrivilegedGroup), true},
		{"nobody", context.Background(), true},
		{"person", person, true},
	} {
		r := &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: tt.name}, Spec: v1alpha1.RepositorySpec{URL: "gopher://x"}}
		_, err := g.Create(tt.ctx, schema.ResourceFor[*v1alpha1.Repository](), r, client.WriteOptions{})
		if apierrors.IsInvalid(err) != tt.refused || !tt.refused && err != nil {
			t.Errorf("%s: %v, refused must be %v", tt.name, err, tt.refused)
		}
	}
}

// TestFindingError: the API puts the path before the text, once.
func TestFindingError(t *testing.T) {
	data := []byte(`{"spec":{"ports":[{"port":0}]}}`)
	for _, tt := range []struct {
		f    v1alpha1.Finding
		want string
	}{
		{v1alpha1.Finding{Field: "spec.ports[0].port", Message: "spec.ports[0].port: must be at least 1"}, "spec.ports[0].port: Invalid value: 0: must be at least 1"},
		{v1alpha1.Finding{Field: "spec.ports[0].port", Message: "must be at least 1"}, "spec.ports[0].port: Invalid value: 0: must be at least 1"},
		{v1alpha1.Finding{Rule: "Required", Field: "spec.type", Message: "spec.type: is missing", Hint: "say one"}, "spec.type: Required value: is missing (say one)"},
	} {
		if got := findingError(tt.f, data).Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	g, _ := open(t, t.TempDir())
	p := pod("p")
	p.Spec.RestartPolicy = "Sometimes"
	_, err := g.Create(person, pods, p, client.WriteOptions{})
	if err == nil || strings.Count(err.Error(), "spec.restartPolicy") != 1 {
		t.Errorf("the path must be named once: %v", err)
	}
}
