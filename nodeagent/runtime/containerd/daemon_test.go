package containerd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// An own daemon that ends is started again, and while it lives nobody looks: the
// kernel says when it has ended.
func TestDaemonIsKept(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "daemon")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &daemon{cfg: Config{DataDir: dir, RunDir: dir, Binary: binary, OwnDaemon: true}, log: newTestLog()}
	l, err := net.Listen("unix", filepath.Join(dir, "containerd.sock")) // that it answers is not what this is about
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	if _, err := d.ensure(ctx); err != nil {
		t.Fatal(err)
	}
	first, ok := d.running()
	if !ok {
		t.Fatal("the daemon does not run")
	}
	kept := make(chan error, 1)
	go func() { kept <- d.keep(ctx) }()

	waited := make(chan struct{})
	go func() { defer close(waited); d.awaitEnd(ctx, first) }()
	// Who looked now and then would take it for ended: the kernel knows better.
	note := d.dir("containerd.pid")
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // both have begun to wait
	if err := os.Rename(note, note+".away"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-waited:
		t.Fatal("the wait for the daemon's end has ended, and the daemon has not")
	case <-time.After(1500 * time.Millisecond):
	}
	if err := os.WriteFile(note, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-waited
	var second int
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if second, ok = d.running(); ok && second != first {
			break
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the daemon is not started again")
		}
	}
	stop()
	if err := <-kept; err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}
