package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// reapUntil collects orphaned children until ctx ends: as PID 1 of a shared PID
// namespace nobody else does.
func reapUntil(ctx context.Context) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	for {
		select {
		case <-ctx.Done():
			return
		case <-children:
			for {
				pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				if pid <= 0 || err != nil {
					break
				}
			}
		}
	}
}
