package apiserver

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// overSocket runs a watch over a WebSocket: each event is one message, text
// where it is JSON. Browsers have no other way to watch.
func (ws *watchStream) overSocket(run func()) {
	h := websocket.Server{
		// Upstream takes any origin: who may ask is a matter of credentials.
		Handshake: func(*websocket.Config, *http.Request) error { return nil },
		Handler: func(conn *websocket.Conn) {
			defer conn.Close()
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = io.Copy(io.Discard, conn) // a client has nothing to say; the end shows that it has left
			}()
			ws.socket, ws.gone = conn, gone
			run()
			_ = conn.Close()
			<-gone
		},
	}
	h.ServeHTTP(ws.x, ws.x.r)
}

func isWebSocket(r *http.Request) bool { return wsstream.IsWebSocketRequest(r) }

// send writes one frame as a message.
func (ws *watchStream) send(frame []byte) error {
	_ = ws.socket.SetWriteDeadline(time.Now().Add(ws.x.writeWithin))
	if ws.enc.out.Media == mediaProtobuf {
		return websocket.Message.Send(ws.socket, frame[4:]) // messages have lengths of their own
	}
	return websocket.Message.Send(ws.socket, string(bytes.TrimSuffix(frame, []byte("\n"))))
}
