package pod

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/probe"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// hook runs lifecycle handlers of a container.
type hook struct {
	w     *worker
	spec  *corev1.Container
	id    string
	podIP string
}

func (h hook) run(ctx context.Context, l *corev1.LifecycleHandler) error {
	switch {
	case l.Exec != nil:
		var out bytes.Buffer
		code, err := h.w.p.cfg.Runtime.Exec(ctx, h.id, runtime.ExecSpec{Command: l.Exec.Command, Stdout: &out, Stderr: &out})
		if err == nil && code != 0 {
			err = fmt.Errorf("command %q exited with %d: %s", l.Exec.Command, code, out.String())
		}
		return err
	case l.HTTPGet != nil:
		return h.get(ctx, l.HTTPGet)
	case l.Sleep != nil:
		select {
		case <-time.After(time.Duration(l.Sleep.Seconds) * time.Second):
		case <-ctx.Done():
		}
		return nil
	case l.TCPSocket != nil:
		port, err := probe.Port(l.TCPSocket.Port, h.spec)
		if err != nil {
			return err
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(h.podIP, strconv.Itoa(port)))
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	return fmt.Errorf("invalid handler: %v", l)
}

func (h hook) get(ctx context.Context, a *corev1.HTTPGetAction) error {
	req, err := probe.Request(ctx, a, probe.Target{PodIP: h.podIP, Container: h.spec})
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kube-lifecycle/1.36")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 10<<10))
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("hook answered %s", res.Status)
	}
	return err
}
