package containerd

import (
	"context"
	"fmt"
	"net"
	"os"
	goruntime "runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dial connects to a port on the loopback interface of a pod. The socket is
// made on a thread that is in the pod's network namespace, and stays there;
// from then on any thread may use it.
func (r *Runtime) Dial(ctx context.Context, uid string, port uint16) (net.Conn, error) {
	if since, err := r.Sandbox(ctx, uid); err != nil || since.IsZero() {
		return nil, fmt.Errorf("connect to port %d: the pod has no sandbox", port)
	}
	netns := r.note(uid, fileNet)
	if netns == "" {
		return dialLoopback(ctx, port, "host")
	}
	return dialIn(ctx, netns, port)
}

// dialIn dials in a network namespace, on a thread that ends afterwards.
func dialIn(ctx context.Context, netns string, port uint16) (conn net.Conn, err error) {
	f, err := os.Open(netns)
	if err != nil {
		return nil, fmt.Errorf("enter network of pod: %w", err)
	}
	defer f.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end. While it is held here, another is used.
			defer goruntime.UnlockOSThread()
			conn, err = dialIn(ctx, netns, port)
			return
		}
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter network of pod: %w", err)
			return
		}
		conn, err = dialLoopback(ctx, port, netns)
	}()
	<-done
	return conn, err
}

// dialLoopback tries both families: a program may listen on one alone. Literal
// addresses keep the dialer on this thread.
func dialLoopback(ctx context.Context, port uint16, where string) (net.Conn, error) {
	var d net.Dialer
	p := strconv.Itoa(int(port))
	conn, err4 := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", p))
	if err4 == nil {
		return conn, nil
	}
	conn, err6 := d.DialContext(ctx, "tcp6", net.JoinHostPort("::1", p))
	if err6 == nil {
		return conn, nil
	}
	return nil, fmt.Errorf("failed to connect to localhost:%d inside namespace %q, IPv4: %v IPv6 %v ", port, where, err4, err6) //nolint:errorlint // as upstream's runtimes word it
}
