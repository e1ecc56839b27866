package adversary

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
)

// result is what became of an attempt.
type result string

const (
	refused result = "refused"
	allowed result = "allowed"
)

// attempt is one thing that an adversary tries.
type attempt struct {
	what string
	want result
	// try does it. got says how it went, in a few words; ok that it succeeded.
	try func() (got string, ok bool)
}

// report makes the attempts in turn, prints the table, and fails the test for
// each that did not go as expected.
func report(t *testing.T, adversary string, attempts []attempt) {
	t.Helper()
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n\tattempt\tresult\texpected\n", adversary)
	for _, a := range attempts {
		said, ok := a.try()
		got := refused
		if ok {
			got = allowed
		}
		mark := " "
		if got != a.want {
			mark = "!"
			t.Errorf("%s: %s: %s, want %s: %s", adversary, a.what, got, a.want, said)
		}
		fmt.Fprintf(w, "%s\t%s\t%s: %s\t%s\n", mark, a.what, got, short(said), a.want)
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
}

func short(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r <= ' ' }), " ")
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return s
}
