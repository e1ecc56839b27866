package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// program gives the container a command of the tests' program.
func (s *suite) program(t *testing.T, uid string, change func(*runtime.Spec), command ...string) string {
	t.Helper()
	sp := s.spec(uid, 0)
	sp.Command, sp.LogPath = append([]string{"/writ"}, command...), t.TempDir()+"/0.log"
	if change != nil {
		change(&sp)
	}
	id := s.run(t, sp)
	Await(t, s.r, uid, id, runtime.Running)
	return id
}

// What goes in comes out, all of it, and the end of the input is one.
func (s *suite) execStreams(t *testing.T) {
	id := s.program(t, s.pod(t), nil, "pause")
	in := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	var out bytes.Buffer
	code, err := s.r.Exec(t.Context(), id, runtime.ExecSpec{Command: []string{"/writ", "cat"}, Stdin: bytes.NewReader(in), Stdout: &out})
	if err != nil || code != 0 || !bytes.Equal(out.Bytes(), in) {
		t.Errorf("cat of %d bytes: %d, %v, %d bytes", len(in), code, err, out.Len())
	}
}

func (s *suite) execExit(t *testing.T) {
	id := s.program(t, s.pod(t), nil, "pause")
	var out, errs bytes.Buffer
	code, err := s.r.Exec(t.Context(), id, runtime.ExecSpec{Command: []string{"/writ", "exit", "7", "sorry"}, Stdout: &out, Stderr: &errs})
	if err != nil || code != 7 || out.Len() != 0 || errs.String() != "sorry\n" {
		t.Errorf("exit 7: %d, %v, %q, %q", code, err, out.String(), errs.String())
	}
}

func (s *suite) execDead(t *testing.T) {
	uid := s.pod(t)
	id := s.program(t, uid, nil, "pause")
	if err := s.r.Signal(t.Context(), id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	Await(t, s.r, uid, id, runtime.Exited)
	if _, err := s.r.Exec(t.Context(), id, runtime.ExecSpec{Command: []string{"/writ", "cat"}}); err == nil {
		t.Error("a command runs in a dead container")
	}
	if err := s.r.Attach(t.Context(), id, runtime.AttachSpec{Stdout: io.Discard}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("attach to a dead container: %v", err)
	}
}

// talk attaches, says a line and reads it back; then its input ends.
func (s *suite) talk(t *testing.T, id, line string) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		done <- s.r.Attach(ctx, id, runtime.AttachSpec{Stdin: inR, Stdout: outW})
		_ = outW.Close()
	}()
	if _, err := io.WriteString(inW, line+"\n"); err != nil {
		t.Fatal(err)
	}
	// A terminal shows what was typed, and then what the program makes of it: of
	// that of the line before, something may come now.
	for heard := bufio.NewReader(outR); ; {
		got, err := heard.ReadString('\n')
		if err != nil {
			t.Errorf("said %q, heard %q (%v)", line, got, err)
		}
		if err != nil || strings.TrimRight(got, "\r\n") == line {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, outR) }()
	_ = inW.Close()
	if err := <-done; err != nil || ctx.Err() != nil {
		t.Errorf("attach ended with %v (%v)", err, ctx.Err())
	}
}

// A container whose input stays open can be attached to again.
func (s *suite) attach(t *testing.T) {
	uid := s.pod(t)
	id := s.program(t, uid, func(sp *runtime.Spec) { sp.Stdin = true }, "cat")
	s.talk(t, id, "one")
	s.talk(t, id, "two")
	Await(t, s.r, uid, id, runtime.Running)
}

func (s *suite) attachTerminal(t *testing.T) {
	uid := s.pod(t)
	id := s.program(t, uid, func(sp *runtime.Spec) { sp.Stdin, sp.TTY = true, true }, "cat")
	s.talk(t, id, "one")
	s.talk(t, id, "two")
	Await(t, s.r, uid, id, runtime.Running)
}

// With stdinOnce the end of the input is the container's.
func (s *suite) stdinOnce(t *testing.T) {
	uid := s.pod(t)
	id := s.program(t, uid, func(sp *runtime.Spec) { sp.Stdin, sp.StdinOnce = true, true }, "cat")
	s.talk(t, id, "one")
	if c := Await(t, s.r, uid, id, runtime.Exited); c.ExitCode != 0 {
		t.Errorf("the program ended with %d", c.ExitCode)
	}
}

func (s *suite) dial(t *testing.T) {
	uid := s.pod(t)
	s.program(t, uid, nil, "echo", "18471")
	var conn net.Conn
	var err error
	for range 500 { // until it listens
		if conn, err = s.r.Dial(t.Context(), uid, 18471); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hello" {
		t.Errorf("echo: %q, %v", b, err)
	}
	if _, err := s.r.Dial(t.Context(), "nobody", 1); err == nil {
		t.Error("connected to a pod that is not here")
	}
}

func (s *suite) update(t *testing.T) {
	id := s.program(t, s.pod(t), nil, "pause")
	for _, r := range []runtime.Resources{
		{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, Memory: 64 << 20},
		{CPUShares: 2}, // without limits again
	} {
		if err := s.r.Update(t.Context(), id, r); err != nil {
			t.Errorf("update to %+v: %v", r, err)
		}
	}
	if err := s.r.Update(t.Context(), "nobody", runtime.Resources{}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("update of no container: %v", err)
	}
}
