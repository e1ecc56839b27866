package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// v5Streams are the channels of a WebSocket of protocol v5.channel.k8s.io.
type v5Streams struct {
	in       io.Reader
	out, err io.WriteCloser
	resize   <-chan remotecommand.TerminalSize
}

// serveV5 speaks v5.channel.k8s.io: v4 with a signal that closes one channel
// (KEP-4006). fn runs the command; wrap words its failure.
func serveV5(w http.ResponseWriter, r *http.Request, opts remotecommand.Options, fn func(v5Streams) error, wrap string) {
	kind := func(wanted bool, t wsstream.ChannelType) wsstream.ChannelType {
		if wanted {
			return t
		}
		return wsstream.IgnoreChannel
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		remotecommand.StreamProtocolV5Name: {Binary: true, Channels: []wsstream.ChannelType{
			remotecommand.StreamStdIn:  kind(opts.Stdin, wsstream.ReadChannel),
			remotecommand.StreamStdOut: kind(opts.Stdout, wsstream.WriteChannel),
			remotecommand.StreamStdErr: kind(opts.Stderr, wsstream.WriteChannel),
			remotecommand.StreamErr:    wsstream.WriteChannel,
			remotecommand.StreamResize: wsstream.ReadChannel,
		}},
	})
	conn.SetIdleTimeout(idleTimeout)
	_, ch, err := conn.Open(w, r)
	if err != nil {
		return // Open has answered
	}
	defer conn.Close()
	// An empty message tells the client that the connection stands.
	first := remotecommand.StreamErr
	switch {
	case opts.Stdout:
		first = remotecommand.StreamStdOut
	case opts.Stderr:
		first = remotecommand.StreamStdErr
	}
	if _, err := ch[first].Write(nil); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	err = fn(v5Streams{
		in: ch[remotecommand.StreamStdIn], out: ch[remotecommand.StreamStdOut], err: ch[remotecommand.StreamStdErr],
		resize: decodeSizes(ctx, ch[remotecommand.StreamResize]),
	})
	b, err := json.Marshal(outcome(err, wrap))
	if err == nil {
		_, _ = ch[remotecommand.StreamErr].Write(b) // the client has gone
	}
}

// decodeSizes reads terminal sizes, JSON objects one after the other.
func decodeSizes(ctx context.Context, from io.Reader) <-chan remotecommand.TerminalSize {
	out := make(chan remotecommand.TerminalSize)
	go func() {
		defer close(out)
		d := json.NewDecoder(from)
		for {
			var size remotecommand.TerminalSize
			if d.Decode(&size) != nil {
				return
			}
			select {
			case out <- size:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// outcome is the Status that ends the error channel.
func outcome(err error, wrap string) metav1.Status {
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exit) && exit.Exited():
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus())},
			}},
		}
	}
	return apierrors.NewInternalError(fmt.Errorf(wrap, err)).Status()
}
