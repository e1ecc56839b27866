package basic

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwords.csv")
	if err := os.WriteFile(path, []byte("s3cret,jane,1,\"dev,ops\"\n\"a,b\",joe,2\npw,jim,3,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	f, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("log: %s", log.String())
	}
	for _, tt := range []struct{ name, password, groups string }{{"jane", "s3cret", "dev ops"}, {"joe", "a,b", ""}, {"jim", "pw", ""}} {
		u, ok := f.Authenticate(tt.name, tt.password)
		if !ok || u.GetName() != tt.name || strings.Join(u.GetGroups(), " ") != tt.groups || u.GetUID() == "" {
			t.Errorf("%s: %v, %v", tt.name, u, ok)
		}
	}
	for _, tt := range [][2]string{{"jane", "a,b"}, {"jane", ""}, {"nobody", ""}, {"nobody", "s3cret"}, {"", ""}} {
		if u, ok := f.Authenticate(tt[0], tt[1]); ok {
			t.Errorf("%q is %v", tt, u)
		}
	}
	if _, err := Open(path+"x", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("opened nothing")
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"pw,jane\n":                   "line 1: must have at least 3 columns",
		"pw,jane,1\npw,jane,2\n":      `line 2: user "jane" is there twice`,
		"pw,,1\n":                     "must not be empty",
		",jane,1\n":                   "must not be empty",
		"pw,jane,1,\"unterminated\nx": "",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("s3cret,jane,1,\"dev,ops\"\n", "jane", "s3cret")
	f.Add("\"", "", "")
	f.Fuzz(func(t *testing.T, text, name, password string) {
		users, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		if u, ok := users.Authenticate(name, password); ok && (u.GetName() != name || name == "" || password == "") {
			t.Errorf("%q %q is %v", name, password, u)
		}
	})
}
