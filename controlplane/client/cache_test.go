package client

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

var maps = schema.ResourceFor[*corev1.ConfigMap]()

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"v": value}}
}

// follow runs a cache of ConfigMaps over a Fake in a bubble.
func follow(t *testing.T, f *Fake) *WatchCache {
	c := NewCache(CacheConfig{Client: f, Resources: []Selection{{Resource: maps}}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	if err := c.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func contents(c Cache) string {
	out := ""
	for _, m := range CachedList[*corev1.ConfigMap](c, "") {
		out += m.Name + m.Data["v"] + " "
	}
	return out
}

func write(t *testing.T, f *Fake, name, value string) {
	t.Helper()
	if _, err := Update(t.Context(), f, configMap(name, value), WriteOptions{}); err == nil {
		return
	}
	if _, err := Create(t.Context(), f, configMap(name, value), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A watch that breaks is resumed: nothing is missed, nothing is told twice.
func TestCacheResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake(configMap("a", "1"), configMap("b", "1"))
		c := follow(t, f)
		told := ""
		if err := c.Subscribe(t.Context(), maps, func(ev Event) {
			told += fmt.Sprintf("%s %s%s, ", ev.Type, ev.Object.GetName(), ev.Object.(*corev1.ConfigMap).Data["v"])
		}); err != nil {
			t.Fatal(err)
		}
		f.Break()
		write(t, f, "a", "2")
		if err := Delete[*corev1.ConfigMap](t.Context(), f, schema.Key{Namespace: "default", Name: "b"}, DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		write(t, f, "c", "1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := told, "ADDED a1, ADDED b1, MODIFIED a2, DELETED b1, ADDED c1, "; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// Where the server has forgotten the place the cache begins anew, and tells
// the difference.
func TestCacheBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake(configMap("a", "1"), configMap("b", "1"), configMap("same", "1"), configMap("renewed", "1"))
		c := follow(t, f)
		told := map[string]int{}
		if err := c.Subscribe(t.Context(), maps, func(ev Event) {
			told[fmt.Sprintf("%s %s%s", ev.Type, ev.Object.GetName(), ev.Object.(*corev1.ConfigMap).Data["v"])]++
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		clear(told)
		f.Break()
		write(t, f, "a", "2")
		for _, name := range []string{"b", "renewed"} {
			if err := Delete[*corev1.ConfigMap](t.Context(), f, schema.Key{Namespace: "default", Name: name}, DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		write(t, f, "renewed", "2")
		f.Compact()
		time.Sleep(time.Minute)
		synctest.Wait()
		want := map[string]int{"MODIFIED a2": 1, "DELETED b1": 1, "DELETED renewed1": 1, "ADDED renewed2": 1}
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told %v, want %v", told, want)
		}
		if got := contents(c); got != "a2 renewed2 same1 " {
			t.Errorf("holds %q", got)
		}
		write(t, f, "a", "3")
		synctest.Wait()
		if got := contents(c); got != "a3 renewed2 same1 " {
			t.Errorf("holds %q afterwards", got)
		}
	})
}

// The server is not there when the cache starts.
func TestCacheWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake(configMap("a", "1"))
		f.Hold()
		c := NewCache(CacheConfig{Client: f, Resources: []Selection{{Resource: maps}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		if err := c.WaitSynced(ctx); err == nil {
			t.Error("synced without a server")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff{since: time.Now()}
		var pauses []time.Duration
		for range 12 {
			begin := time.Now()
			b.wait(t.Context())
			pauses = append(pauses, time.Since(begin))
		}
		if pauses[0] > retryFirst || pauses[11] < retryMost/2 || pauses[11] > retryMost {
			t.Errorf("pauses: %v", pauses)
		}
		time.Sleep(2 * retryReset)
		begin := time.Now()
		b.wait(t.Context())
		if d := time.Since(begin); d > retryFirst {
			t.Errorf("pause after a healthy time: %v", d)
		}
	})
}
