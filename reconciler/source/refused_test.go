package source

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestForbidden: a host that knows the credentials and refuses them is quoted,
// in one sentence that says what to do; a page of HTML is not.
func TestForbidden(t *testing.T) {
	for body, want := range map[string]string{
		"user \"bob\" may read\nand not push " + password: `(user "bob" may read and not push ***)`,
		"<html><body>403</body></html>":                   "",
		strings.Repeat("long ", 1000):                     "long ...)",
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, body, http.StatusForbidden) }))
		defer web.Close()
		s := New(Config{URL: web.URL + "/x.git", Dir: t.TempDir(), Auth: Auth{Username: "bob", Password: password}})
		defer s.Close()
		_, err := s.Fetch(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "let them read the repository") || strings.Contains(err.Error(), "html") {
			t.Errorf("%.40q: %v", body, err)
		}
	}
}
