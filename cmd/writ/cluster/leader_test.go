package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestGitWaitsForLeader: a push that comes while nobody leads waits until
// somebody does, and is told so when nobody does for long.
func TestGitWaitsForLeader(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leads time.Duration // from when on; 0: never
		code  int
		after time.Duration
	}{
		{"leads", time.Nanosecond, http.StatusOK, 100 * time.Millisecond},
		{"leads soon", 1950 * time.Millisecond, http.StatusOK, 2 * time.Second},
		{"never leads", 0, http.StatusServiceUnavailable, leaderWait},
	} {
		for _, passed := range []string{"", "other"} {
			t.Run(tt.name+" "+passed, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &ControlPlane{}
					served := p.atLeader(func(*repository) http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) })
					if tt.leads > 0 {
						time.AfterFunc(tt.leads, func() { p.git.Store(&repository{}) })
					}
					w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/git/cluster.git/info/refs", nil)
					r.Header.Set(passedOn, passed)
					began := time.Now()
					served.ServeHTTP(w, r)
					if w.Code != tt.code || time.Since(began) != tt.after {
						t.Errorf("%d after %v, want %d after %v", w.Code, time.Since(began), tt.code, tt.after)
					}
				})
			})
		}
	}
}
