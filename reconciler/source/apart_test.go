package source

import (
	"os"
	"strings"
	"testing"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source/pack"
)

// deadly is a bound of what is fetched with which the child dies of each pack.
const deadly = 123_456_789

func mortal(f sandbox.Func[pack.Question, pack.Verdict]) sandbox.Func[pack.Question, pack.Verdict] {
	inner := f.With
	f.With = func(q pack.Question, c *sandbox.Caller) pack.Verdict {
		v := inner(q, c)
		if q.Limits.Size == deadly {
			os.Exit(3)
		}
		return v
	}
	return f
}

// A pack of which the child dies that reads it is one failed fetch: what was
// fetched before serves, and the next fetch brings what is new.
func TestReaderOfAPackDies(t *testing.T) {
	w, bare, first := served(t)
	web := serveHTTP(t, bare)
	cfg := web.config(t)
	cfg.Sandbox = sandbox.New(sandbox.Config{})
	defer cfg.Sandbox.Close()
	s := New(cfg)
	fetched(t, s, first)
	if got := files(t, s, first); len(got) != 2 {
		t.Errorf("files = %q", got)
	}
	s.Close()
	if cfg.Sandbox.Layers() == nil {
		t.Error("no child has read the pack")
	}

	next := w.commit("c", "3")
	w.push("main")
	cfg.Limits.Fetch = deadly
	s = New(cfg)
	c, err := s.Fetch(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the process that reads it has ended") || c.SHA != first || !c.Stale {
		t.Errorf("%+v %v", c, err)
	}
	if got := files(t, s, first); len(got) != 2 {
		t.Errorf("files = %q", got)
	}
	s.Close()

	cfg.Limits.Fetch = 0
	s = New(cfg)
	defer s.Close()
	fetched(t, s, next)
}
