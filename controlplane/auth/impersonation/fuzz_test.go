package impersonation

import (
	"net/http"
	"testing"
)

// FuzzWanted: whatever the headers say, it names a user or is refused; and a
// user is never handed on together with the headers that made it.
func FuzzWanted(f *testing.F) {
	f.Add("Impersonate-User", "jane", "Impersonate-Group", "admins")
	f.Add("Impersonate-Extra-A%2fb", "x", "Impersonate-User", "jane")
	f.Add("Impersonate-Uid", "7", "Impersonate-Extra-%zz", "")
	f.Add("impersonate-user", "jane", "Impersonate-Extra-", "y")
	f.Fuzz(func(t *testing.T, name, value, other, more string) {
		h := http.Header{}
		h.Add(name, value)
		h.Add(other, more)
		u, err := Wanted(h)
		switch {
		case u != nil && (err != nil || u.Name == ""):
			t.Errorf("%v and %v", u, err)
		case u != nil && h.Get("Impersonate-User")+h.Get("Impersonate-Group")+h.Get("Impersonate-Uid") != "":
			t.Errorf("still there for the next: %v", h)
		}
	})
}
