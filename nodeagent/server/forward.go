package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// forward answers /portForward/{namespace}/{pod}[/{uid}]: connections to ports
// of a pod, over SPDY, SPDY in a WebSocket, or the old WebSocket channels.
func (s *Server) forward(w http.ResponseWriter, r *http.Request) {
	tunneled := wsstream.IsWebSocketRequestWithTunnelingProtocol(r)
	opts := &portforward.V4Options{}
	if !tunneled {
		var err error
		if opts, err = portforward.NewV4Options(r); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	pod, ok := s.cfg.Pods.Get(r.PathValue("namespace"), r.PathValue("pod"))
	if !ok || s.cfg.Streams == nil {
		refuse(w, http.StatusNotFound, "pod does not exist")
		return
	}
	if uid := r.PathValue("uid"); uid != "" && uid != string(pod.UID) {
		refuse(w, http.StatusNotFound, "pod not found")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel() // what the client has left behind ends with its connection
	w, release := s.hold(w, r)
	defer release()
	if tunneled {
		w, r = newTunnel(w, r)
	}
	f := &forwarder{ctx: ctx, streams: s.cfg.Streams, uid: string(pod.UID)}
	portforward.ServePortForward(w, r, f, pod.Name, string(pod.UID), opts, idleTimeout, createTimeout, portforward.SupportedProtocols)
}

// forwarder connects one client to one pod.
type forwarder struct {
	ctx     context.Context //nolint:containedctx // of the client's connection, which the library does not pass on
	streams Streams
	uid     string
}

// lastWords is how long a client's half goes on after the pod's has ended, as
// upstream's runtimes have it.
const lastWords = 500 * time.Millisecond

// PortForward implements portforward.PortForwarder.
func (f *forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := f.streams.Dial(f.ctx, f.uid, uint16(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(f.ctx, func() { _ = conn.Close() })
	defer stop()
	toPod, toClient := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, stream)
		// The client says no more, but may still listen.
		if c, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			err = c.CloseWrite()
		} else {
			_ = conn.Close()
		}
		toPod <- err
	}()
	client := &gone{Writer: stream}
	go func() {
		_, err := io.Copy(client, conn)
		toClient <- err
	}()
	err = <-toClient // the pod has said all
	select {
	case <-toPod:
	case <-time.After(lastWords):
	}
	if client.gone || f.ctx.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil // it was the client who ended it
	}
	return err
}

// gone notes that a client cannot be written to. That is no failure of the pod:
// a client that is told of one gives up all its connections.
type gone struct {
	io.Writer
	gone bool
}

func (g *gone) Write(b []byte) (int, error) {
	n, err := g.Writer.Write(b)
	g.gone = g.gone || err != nil
	return n, err
}
