package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		s := New(&b, false)
		s.Start("store", "opening")
		time.Sleep(42 * time.Millisecond)
		s.Done("empty")
		s.Start("node", "registering")
		time.Sleep(1500 * time.Millisecond)
		s.Fail("")
		s.Done("nothing runs, nothing is printed")
		want := "✓ store                  empty (42ms)\n✗ node                   registering (1.5s)\n"
		if b.String() != want {
			t.Errorf("got\n%swant\n%s", b.String(), want)
		}
	})
}

func TestTerminalSpinsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		s := New(&b, true)
		s.Start("store", "opening")
		time.Sleep(350 * time.Millisecond)
		s.Done("")
		if n := strings.Count(b.String(), "\r"); n < 4 {
			t.Errorf("redrawn %d times in 350ms: %q", n, b.String())
		}
		if !strings.HasSuffix(b.String(), "350ms"+reset+"\n") {
			t.Errorf("end: %q", b.String())
		}
	})
}
