package pod

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
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

// run runs a handler. A tcpSocket is none: it fails, as upstream.
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
	}
	return fmt.Errorf("invalid handler: %v", l)
}

// get asks once. Any answer will do, whatever its status says, and a hook that
// is told to speak HTTPS to a server of HTTP gets one all the same: as upstream.
func (h hook) get(ctx context.Context, a *corev1.HTTPGetAction) error {
	req, err := probe.Request(ctx, a, probe.Target{PodIP: h.podIP, Container: h.spec})
	if err != nil {
		return err
	}
	if req.Header.Get("User-Agent") == probe.UserAgent {
		req.Header.Set("User-Agent", "kube-lifecycle/1.36")
	}
	err = send(req)
	if err == nil || !strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return err
	}
	req = req.Clone(ctx)
	req.URL.Scheme = "http"
	req.Header.Del("Authorization") // it was meant for an encrypted connection
	if send(req) != nil {
		return err
	}
	h.w.event(corev1.EventTypeWarning, eventHTTPFallback, fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host))
	return nil
}

func send(req *http.Request) error {
	res, err := probe.Client().Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 10<<10))
	return err
}
