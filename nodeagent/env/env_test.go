package env

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "a", "B": "$(A)", "EMPTY": ""}
	lookup := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	tests := []struct{ in, want string }{
		{"", ""},
		{"plain", "plain"},
		{"$(A)", "a"},
		{"-$(A)-$(A)-", "-a-a-"},
		{"$(B)", "$(A)"}, // values are not expanded again
		{"$(EMPTY)!", "!"},
		{"$(NONE)", "$(NONE)"},
		{"$$(A)", "$(A)"},
		{"$$$(A)", "$a"},
		{"$$$$(A)", "$$(A)"},
		{"$(A", "$(A"},
		{"$A", "$A"},
		{"100$", "100$"},
		{"$", "$"},
		{"$$", "$"},
		{"$()", "$()"},
		{"$($(A))", "$($(A))"},
		{"${A}", "${A}"},
		{"\n$(A)ü", "\naü"},
	}
	for _, tt := range tests {
		if got := Expand(tt.in, lookup); got != tt.want {
			t.Errorf("Expand(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	if _, err := ExpandStrict("x/$(NONE)", lookup); err == nil {
		t.Error("ExpandStrict accepts an unknown name")
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"$(A)", "$$(A)", "$(", "$", "a$b$(A)$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		same := Expand(s, func(string) (string, bool) { return "", false })
		if !strings.Contains(s, "$$") && same != s {
			t.Errorf("without variables %q became %q", s, same)
		}
	})
}

// objects are ConfigMaps and Secrets by name.
type objects struct {
	maps    map[string]map[string]string
	secrets map[string]map[string][]byte
}

func (o objects) ConfigMap(_ context.Context, ns, name string) (*corev1.ConfigMap, error) {
	d, ok := o.maps[ns+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: d}, nil
}

func (o objects) Secret(_ context.Context, ns, name string) (*corev1.Secret, error) {
	d, ok := o.secrets[ns+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Data: d}, nil
}

func source() Source {
	return Source{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Labels: map[string]string{"b": "2", "a": "1"}},
			Spec: corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("10Mi")},
			}}}},
		},
		HostIPs: []string{"10.0.0.1"}, PodIPs: []string{"10.244.0.9", "fd00::9"},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")},
		Objects: objects{
			maps:    map[string]map[string]string{"ns/conf": {"KEY": "v", "other-key": "w", "=bad": "x"}},
			secrets: map[string]map[string][]byte{"ns/sec": {"PASS": []byte("s3")}},
		},
		Services: []*corev1.Service{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "my-db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 5432, Protocol: "TCP"}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 1}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "else", Name: "far"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.8", Ports: []corev1.ServicePort{{Port: 1}}}},
		},
	}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func res(name, divisor string) *corev1.EnvVarSource {
	r := &corev1.ResourceFieldSelector{Resource: name}
	if divisor != "" {
		r.Divisor = resource.MustParse(divisor)
	}
	return &corev1.EnvVarSource{ResourceFieldRef: r}
}

func TestMake(t *testing.T) {
	ref := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	tests := []struct {
		name string
		c    corev1.Container
		want []string // without the variables of services
		err  string
	}{
		{"plain and references", corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)/$(LATER)/$(MY_DB_SERVICE_HOST)"}, {Name: "LATER", Value: "x"}}},
			[]string{"A=1", "B=1/$(LATER)/10.96.0.7", "LATER=x"}, ""},
		{"the last of a name counts", corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "$(A)2"}}}, []string{"A=12"}, ""},
		{"fields", corev1.Container{Env: []corev1.EnvVar{
			{Name: "N", ValueFrom: field("metadata.name")}, {Name: "NODE", ValueFrom: field("spec.nodeName")}, {Name: "SA", ValueFrom: field("spec.serviceAccountName")},
			{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "IPS", ValueFrom: field("status.podIPs")}, {Name: "H", ValueFrom: field("status.hostIP")},
			{Name: "L", ValueFrom: field("metadata.labels['a']")}, {Name: "LS", ValueFrom: field("metadata.labels")}}},
			[]string{"N=p", "NODE=n", "SA=sa", "IP=10.244.0.9", "IPS=10.244.0.9,fd00::9", "H=10.0.0.1", "L=1", "LS=a=\"1\"\nb=\"2\""}, ""},
		{"unknown field", corev1.Container{Env: []corev1.EnvVar{{Name: "N", ValueFrom: field("spec.foo")}}}, nil, "unsupported fieldPath: spec.foo"},
		{"resources", corev1.Container{Name: "c", Env: []corev1.EnvVar{
			{Name: "C", ValueFrom: res("requests.cpu", "")}, {Name: "M", ValueFrom: res("requests.cpu", "1m")}, {Name: "MEM", ValueFrom: res("requests.memory", "1Mi")}, {Name: "LIM", ValueFrom: res("limits.cpu", "")}}},
			[]string{"C=1", "M=250", "MEM=10", "LIM=4"}, ""},
		{"whole objects", corev1.Container{
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("conf")}}, {Prefix: "P_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("sec")}}},
			Env:     []corev1.EnvVar{{Name: "KEY", Value: "own"}}},
			[]string{"KEY=own", "other-key=w", "P_PASS=s3"}, ""},
		{"keys", corev1.Container{Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("conf"), Key: "KEY"}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("sec"), Key: "PASS"}}}}}, []string{"A=v", "B=s3"}, ""},
		{"missing object", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("none"), Key: "KEY"}}}}}, nil, `configmaps "none" not found`},
		{"missing key", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("conf"), Key: "NONE"}}}}}, nil, "couldn't find key NONE in ConfigMap ns/conf"},
		{"optional", corev1.Container{
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("none"), Optional: new(true)}}},
			Env: []corev1.EnvVar{
				{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("conf"), Key: "NONE", Optional: new(true)}}},
				{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("none"), Key: "x", Optional: new(true)}}}}}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vars, err := Make(t.Context(), source(), &tt.c)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range Strings(vars) {
				if !strings.HasPrefix(s, "KUBERNETES_") && !strings.HasPrefix(s, "MY_DB_") {
					got = append(got, s)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestServiceVariables(t *testing.T) {
	s := source()
	want := []string{
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443",
		"KUBERNETES_PORT=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO=tcp",
		"KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
		"MY_DB_SERVICE_HOST=10.96.0.7", "MY_DB_SERVICE_PORT=5432", "MY_DB_PORT=tcp://10.96.0.7:5432", "MY_DB_PORT_5432_TCP=tcp://10.96.0.7:5432",
		"MY_DB_PORT_5432_TCP_PROTO=tcp", "MY_DB_PORT_5432_TCP_PORT=5432", "MY_DB_PORT_5432_TCP_ADDR=10.96.0.7",
	}
	vars, err := Make(t.Context(), s, &corev1.Container{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, Strings(vars)); d != "" {
		t.Error(d)
	}
	s.Pod.Spec.EnableServiceLinks = new(false)
	vars, err = Make(t.Context(), s, &corev1.Container{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want[:8], Strings(vars)); d != "" {
		t.Errorf("without service links: %s", d)
	}
}
