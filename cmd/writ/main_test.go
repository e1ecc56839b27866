package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/sandbox"
)

// The scripts run this very program.
func TestMain(m *testing.M) {
	if sandbox.Serve(reconciler.Functions()...) {
		return
	}
	testscript.Main(m, map[string]func(){"writ": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"takeport": takePort,
		},
	})
}

// takePort listens on a free port for as long as the script runs, and sets a
// variable to its address.
func takePort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

func TestExitCodes(t *testing.T) {
	quiet, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = quiet
	defer func() { os.Stderr = stderr; quiet.Close() }()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("broken"), 1},
		{errFindings, 1},
		{usageError{errors.New("no such flag")}, 2},
		{fmt.Errorf("wrapped: %w", usageError{errors.New("no such flag")}), 2},
	} {
		if got := report(c.err); got != c.want {
			t.Errorf("report(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}
