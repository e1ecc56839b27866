package legacytokencleaner

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
}

// account lists the Secrets that servers made for it.
func account(made ...string) *corev1.ServiceAccount {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sa"}}
	for _, name := range made {
		sa.Secrets = append(sa.Secrets, corev1.ObjectReference{Name: name})
	}
	return sa
}

func token(name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: labels, CreationTimestamp: metav1.Now(),
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"},
	}}
}

// run lets the controller work for a time, and returns what became of tokens.
func run(t *testing.T, for_ time.Duration, objects ...schema.Object) (f *client.Fake) {
	t.Helper()
	f = client.NewFake(append(objects, namespace())...)
	stop := controllertest.Start(t, f, New(Config{Tools: controllertest.Tools(f)}), 1)
	time.Sleep(for_)
	synctest.Wait()
	stop()
	return f
}

// state is gone, valid or invalid.
func state(t *testing.T, f *client.Fake, name string) string {
	t.Helper()
	s, err := client.Get[*corev1.Secret](t.Context(), f, schema.Key{Namespace: "default", Name: name})
	switch {
	case apierrors.IsNotFound(err):
		return "gone"
	case err != nil:
		t.Fatal(err)
	case s.Labels[invalidSince] != "":
		return "invalid"
	}
	return "valid"
}

// A token that a server made and nobody uses is out of use after a year and two
// days, and gone after two years.
func TestUnusedGoes(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{time.Hour, "valid"}, {year, "valid"}, {year + 3*day, "invalid"}, {2*year - day, "invalid"}, {2*year + 5*day, "gone"}} {
		synctest.Test(t, func(t *testing.T) {
			if got := state(t, run(t, tt.after, account("t"), token("t", nil)), "t"); got != tt.want {
				t.Errorf("after %v: %s, want %s", tt.after, got, tt.want)
			}
		})
	}
}

func TestOthersStay(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}},
		Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "read"}, Key: "token"}}}}}},
	}}
	synctest.Test(t, func(t *testing.T) {
		far := time.Now().Add(3 * year).Format(time.DateOnly)
		opaque := token("opaque", nil)
		opaque.Type = corev1.SecretTypeOpaque
		f := run(t, 2*year+10*day, pod, account("mounted", "read", "used", "odd", "opaque", "idle"),
			token("mounted", nil), token("read", nil), token("manual", nil), opaque, token("idle", nil),
			token("used", map[string]string{lastUsed: far}), token("odd", map[string]string{lastUsed: "yesterday"}))
		for name, want := range map[string]string{
			"mounted": "valid", "read": "valid", "manual": "valid", "opaque": "valid", "used": "valid", "odd": "valid", "idle": "gone",
		} {
			if got := state(t, f, name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	})
}

// The day from which uses are known is written once, and again when it cannot be
// read: nothing is out of use for a year from then.
func TestTracking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tracking.Namespace, Name: tracking.Name}, Data: map[string]string{since: "?", "other": "x"}}
		today := time.Now().UTC().Format(time.DateOnly)
		f := run(t, 30*day, bad)
		cm, err := client.Get[*corev1.ConfigMap](t.Context(), f, tracking)
		if err != nil || cm.Data[since] != today || cm.Data["other"] != "x" {
			t.Errorf("%v, %v; want since %s", cm.Data, err, today)
		}
	})
}
