package cbor

import (
	"bytes"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// writer turns JSON into CBOR: an answer as a whole when it ends, events as
// soon as they are written. What is no JSON passes.
type writer struct {
	http.ResponseWriter
	code   int
	pass   bool // no JSON
	stream bool // one JSON value a line
	begun  bool // the header is sent
	buf    bytes.Buffer
}

func newWriter(w http.ResponseWriter) *writer { return &writer{ResponseWriter: w} }

// Unwrap lets http.ResponseController find the real one.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(code int) {
	if w.code != 0 {
		return
	}
	w.code = code
	h := w.Header()
	if w.pass = !strings.HasPrefix(h.Get("Content-Type"), runtime.ContentTypeJSON); w.pass {
		w.begin()
		return
	}
	h.Del("Content-Length") // that of the JSON
	h.Set("Content-Type", runtime.ContentTypeCBOR)
}

func (w *writer) begin() {
	if !w.begun {
		w.begun = true
		w.ResponseWriter.WriteHeader(w.code)
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.pass {
		return w.ResponseWriter.Write(b)
	}
	w.buf.Write(b)
	if w.stream {
		return len(b), w.events()
	}
	return len(b), nil
}

// Flush implements http.Flusher. A server flushes what is not whole: from then
// on the answer is a sequence of values, one a line.
func (w *writer) Flush() {
	w.WriteHeader(http.StatusOK)
	if !w.pass && !w.begun {
		w.stream = true
		w.Header().Set("Content-Type", runtime.ContentTypeCBORSequence)
		w.begin()
		_ = w.events()
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// events writes the lines that are whole.
func (w *writer) events() error {
	for {
		line, rest, ok := bytes.Cut(w.buf.Bytes(), []byte("\n"))
		if !ok {
			return nil
		}
		data, err := encode(line)
		if err != nil {
			return err
		}
		if _, err := w.ResponseWriter.Write(data); err != nil {
			return err
		}
		w.buf.Next(w.buf.Len() - len(rest))
	}
}

// finish writes an answer that is not a stream.
func (w *writer) finish() {
	if w.code == 0 || w.pass || w.stream {
		return
	}
	data, err := encode(w.buf.Bytes())
	if err != nil { // it is no JSON, whatever it was called
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		data = w.buf.Bytes()
	}
	w.begin()
	_, _ = w.ResponseWriter.Write(data)
}
