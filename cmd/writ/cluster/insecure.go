package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/writ-os/writ/controlplane/apiserver"
)

// serveInsecure serves the port of old, on loopback only: everybody on this
// machine is system:masters there. The unix socket does the same for its owner
// alone.
func (p *ControlPlane) serveInsecure(ctx context.Context) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.cfg.API.InsecurePort)))
	if err != nil {
		return fmt.Errorf("open the insecure port: %w", err)
	}
	p.log("apiserver").Warn("every process on this machine may do everything: --insecure-port; prefer the unix socket", "address", l.Addr().String(), "socket", p.cfg.file("writ.sock"))
	srv := &http.Server{Handler: p.api.LocalHandler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if srv.Shutdown(last) != nil {
			_ = srv.Close() // the clients that hold on lose their connections
		}
		close(ended)
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the insecure port: %w", err)
	}
	<-ended // the requests that run finish
	return nil
}

// checks are the server's own lines of /readyz.
func (p *ControlPlane) checks() []apiserver.Check {
	all := []apiserver.Check{{Name: "crd-informer-sync", Check: func(context.Context) error {
		select {
		case <-p.definitions.Ready():
			return nil
		default:
			return errors.New("custom resources are not served yet")
		}
	}}}
	all = append(all, apiserver.Check{Name: "stored-values", Check: func(context.Context) error { return p.store.Unreadable() }},
		apiserver.Check{Name: "storage-space", Check: func(context.Context) error { return p.store.Full() }})
	if p.encryption != nil {
		all = append(all, apiserver.Check{Name: "kms-providers", Check: p.encryption.Check})
	}
	return all
}
