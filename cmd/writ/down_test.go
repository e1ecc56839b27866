package main

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// TestEnd: a process that obeys, one that does not, one that is gone, one that
// is not the one that was meant, and a caller who gives up.
func TestEnd(t *testing.T) {
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	for _, tt := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // of a case
		script string
		limit  time.Duration
		other  bool
		want   error
		status string // of the process after it; "": it runs
	}{
		{"obeys", t.Context(), "trap 'exit 3' TERM; echo; while :; do sleep 0.01; done", time.Minute, false, nil, "exit status 3"},
		{"does not obey", t.Context(), "trap '' TERM; echo; while :; do sleep 0.01; done", 100 * time.Millisecond, false, nil, "signal: killed"},
		{"is another's", t.Context(), "echo; while :; do sleep 0.01; done", time.Minute, true, nil, ""},
		{"given up", given, "trap '' TERM; echo; while :; do sleep 0.01; done", time.Minute, false, context.Canceled, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", tt.script)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil { // the trap is set
				t.Fatal(err)
			}
			err = end(tt.ctx, cmd.Process.Pid, tt.limit, func() bool { return !tt.other })
			if !errors.Is(err, tt.want) {
				t.Errorf("end: %v, want %v", err, tt.want)
			}
			if tt.status == "" {
				if err := cmd.Process.Kill(); err != nil {
					t.Errorf("it does not run any more: %v", err)
				}
				_ = cmd.Wait()
				return
			}
			if err := cmd.Wait(); err == nil || err.Error() != tt.status {
				t.Errorf("it ended with %v, want %s", err, tt.status)
			}
			if err := end(tt.ctx, cmd.Process.Pid, tt.limit, func() bool { return true }); err != nil {
				t.Errorf("end of what is gone: %v", err)
			}
		})
	}
}
