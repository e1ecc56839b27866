package cluster

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// freebind listens on an address that does not exist yet: the gateway of the
// pods, which the node agent makes later.
func freebind(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var serr error
		err := c.Control(func(fd uintptr) { serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1) })
		if err != nil {
			return err
		}
		return serr
	}}
	l, err := lc.Listen(ctx, "tcp4", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for pods: %w", address, err)
	}
	return l, nil
}
