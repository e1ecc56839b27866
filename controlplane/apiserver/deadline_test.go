package apiserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestGuard: a guard acts in its time, once begun anew later, and never after
// it was stopped, not even when its time had come at that very moment.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acted atomic.Int32
		g := guarded(time.Second, func() { acted.Add(1) })
		time.Sleep(900 * time.Millisecond)
		g.Reset(time.Second)
		time.Sleep(900 * time.Millisecond)
		if synctest.Wait(); acted.Load() != 0 {
			t.Error("acts before its time")
		}
		time.Sleep(200 * time.Millisecond)
		if synctest.Wait(); acted.Load() != 1 {
			t.Errorf("acted %d times", acted.Load())
		}
		g.Stop()
		g = guarded(time.Second, func() { acted.Add(1) })
		g.Stop()
		g.timer.Reset(0) // the timer had fired when it was stopped
		if synctest.Wait(); acted.Load() != 1 {
			t.Error("acts after it was stopped")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

// TestGuardEnds: guards that fire while their handlers end do no harm. The
// process would die of a nil pointer.
func TestGuardEnds(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		x := &responseWriter{ResponseWriter: w, writeWithin: 50 * time.Microsecond}
		defer x.guardWrite().Stop()
		_, _ = io.WriteString(x, "x")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c := s.Client()
	c.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"h2"}
	for range 2000 {
		resp, err := c.Get(s.URL)
		if err != nil {
			continue // broken off, as it must be
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
