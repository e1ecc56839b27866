package sandbox

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Functions of children in tests.
var (
	echo  = Func[[]byte, []byte]{Name: "echo", Do: func(q []byte, _ func(int)) []byte { return q }}
	count = Func[string, int]{Name: "count", Do: func(q string, at func(int)) int { at(1); at(2); return len(q) }}
	fail  = Func[string, string]{Name: "fail", Do: func(how string, at func(int)) string { at(7); return fails[how]() }}
	try   = Func[attack, string]{Name: "try", Do: func(a attack, _ func(int)) string { return a.try() }}
	wrong = Func[string, []string]{Name: "wrong", Do: func(string, func(int)) []string { return nil }}
	small = Func[int, []byte]{Name: "small", Do: func(n int, _ func(int)) []byte { return make([]byte, n) }, Max: 1 << 10}
)

// fails are ways to fail.
var fails = map[string]func() string{
	"panic":    func() string { panic("at the disco") },
	"overflow": func() string { return deep(1) },
	"routine": func() string {
		go func() { panic("nobody looks") }()
		time.Sleep(time.Minute)
		return ""
	},
	"exit": func() string { os.Exit(3); return "" },
	"spin": func() string {
		for {
			_ = errors.New("")
		}
	},
	"memory": func() string { return strings.Repeat("x", 4<<30)[:1] },
	"hoard": func() string {
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
	},
	"stray": func() string {
		_, _ = os.Stdout.WriteString("hello, this is no answer")
		time.Sleep(time.Minute)
		return ""
	},
	"silence": func() string { _ = os.Stdout.Close(); time.Sleep(time.Minute); return "" },
	"nothing": func() string { return "" },
}

func deep(n int) string {
	if n == 0 {
		return ""
	}
	return deep(n+1) + "x"
}

func TestMain(m *testing.M) {
	if Serve(halves, echo, count, fail, try, Func[string, string]{Name: "wrong", Do: func(q string, _ func(int)) string { return q }}, small) {
		return
	}
	goleak.VerifyTestMain(m)
}

func sandbox(t testing.TB, cfg Config) *Sandbox {
	t.Helper()
	s := New(cfg)
	t.Cleanup(s.Close)
	return s
}
