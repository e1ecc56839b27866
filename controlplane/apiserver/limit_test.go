package apiserver

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestLimiterReserve: people cannot take the slots of the cluster's own parts.
func TestLimiterReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(8)
		alice := &user.DefaultInfo{Name: "alice"}
		node := &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}}
		var releases []func()
		for range 6 {
			release, err := l.acquire(t.Context(), alice)
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		began := time.Now()
		if _, err := l.acquire(t.Context(), alice); !apierrors.IsTooManyRequests(err) || time.Since(began) != l.wait {
			t.Fatalf("seventh request of people: %v after %v", err, time.Since(began))
		}
		for range 2 {
			release, err := l.acquire(t.Context(), node)
			if err != nil {
				t.Fatalf("a node is kept out: %v", err)
			}
			releases = append(releases, release)
		}
		go func() { time.Sleep(time.Second); releases[0]() }()
		if _, err := l.acquire(t.Context(), alice); err != nil {
			t.Fatalf("request that waits for a slot: %v", err)
		}
		synctest.Wait()
	})
}

func TestIsSystem(t *testing.T) {
	for name, want := range map[string]bool{
		"alice": false, "system:serviceaccount:default:default": false, "system:anonymous": false,
		"system:kube-scheduler": true, "system:node:n": true, "viewer": false,
	} {
		if got := isSystem(&user.DefaultInfo{Name: name}); got != want {
			t.Errorf("isSystem(%s) = %v", name, got)
		}
	}
	if !isSystem(&user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}) {
		t.Error("system:masters is not system")
	}
}
