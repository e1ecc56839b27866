package audit

import (
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// processor is the time that the process has used, which is what counts where
// others use the machine too.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRecord is what one write costs in a log under our own policy.
func BenchmarkRecord(b *testing.B) {
	t, err := New(Config{}.In(filepath.Join(b.TempDir(), "audit.log")))
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps?fieldManager=kubectl", nil)
	r.Header.Set("User-Agent", "kubectl/v1.36.4 (linux/amd64) kubernetes/0000000")
	a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "jane", Groups: []string{"dev", user.AllAuthenticated}}, Verb: "create",
		APIVersion: "v1", Resource: "configmaps", Namespace: "default", Path: r.URL.Path, ResourceRequest: true}
	b.ReportAllocs()
	before := processor(b)
	defer func() { b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		_, e, err := t.Begin(r, "0b3f3a1e-3a0b-4c0e-9d0e-0b3f3a1e3a0b", time.Now(), a, false)
		if err != nil {
			b.Fatal(err)
		}
		e.Started(201)
		e.End(nil)
	}
}
