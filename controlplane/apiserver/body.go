package apiserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
)

// chunk is how much is written at once. A response that fits into one is sent
// with its length and not compressed.
const chunk = 128 << 10

// body writes a response in chunks from a shared buffer.
type body struct {
	x    *exchange
	code int
	out  output
	buf  *[]byte
	zip  *gzip.Writer
	sent bool
	err  error
	// whole holds everything back until close: YAML and pretty JSON are made
	// from complete documents.
	whole bool
}

var (
	chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunk+chunk/4); return &b }}
	zips   = sync.Pool{New: func() any { z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed); return z }}
)

func newBody(x *exchange, code int, out output) *body {
	h := x.Header()
	h.Set("Content-Type", out.Media.String())
	b := &body{x: x, code: code, out: out, buf: chunks.Get().(*[]byte)}
	*b.buf = (*b.buf)[:0]
	b.whole = out.Media == mediaYAML || out.Media == mediaJSON && out.Pretty
	return b
}

// add appends bytes; a full chunk goes out.
func (b *body) add(p []byte) {
	*b.buf = append(*b.buf, p...)
	b.spill()
}

func (b *body) addString(s string) {
	*b.buf = append(*b.buf, s...)
	b.spill()
}

// spill sends the chunk when it is full. Those who append to *b.buf themselves
// call it.
func (b *body) spill() {
	if len(*b.buf) >= chunk && !b.whole {
		b.send(false)
	}
}

// send writes what is in the buffer.
func (b *body) send(last bool) {
	if b.err != nil {
		*b.buf = (*b.buf)[:0]
		return
	}
	defer b.x.guardWrite().Stop()
	if !b.sent {
		b.start(last)
	}
	var w io.Writer = b.x
	if b.zip != nil {
		w = b.zip
	}
	_, b.err = w.Write(*b.buf)
	*b.buf = (*b.buf)[:0]
}

// start writes the header.
func (b *body) start(last bool) {
	b.sent = true
	h := b.x.Header()
	switch {
	case last && len(*b.buf) < chunk:
		h.Set("Content-Length", strconv.Itoa(len(*b.buf)))
	case acceptsGzip(b.x.r):
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		b.zip = zips.Get().(*gzip.Writer)
		b.zip.Reset(b.x)
	}
	b.x.WriteHeader(b.code)
}

// close sends the rest.
func (b *body) close() {
	if b.whole {
		*b.buf = b.transform(*b.buf)
	}
	b.send(true)
	if b.zip != nil {
		if err := b.zip.Close(); b.err == nil {
			b.err = err
		}
		zips.Put(b.zip)
	}
	if cap(*b.buf) <= 4*chunk {
		chunks.Put(b.buf)
	}
}

// write sends a whole document.
func (b *body) write(doc []byte) {
	b.add(doc)
	b.close()
}

// transform makes YAML or pretty JSON out of the whole document.
func (b *body) transform(doc []byte) []byte {
	if b.out.Media == mediaYAML {
		if y, err := yaml.JSONToYAML(doc); err == nil {
			return y
		}
		return doc
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, doc, "", "  ") != nil {
		return doc
	}
	pretty.WriteByte('\n')
	return pretty.Bytes()
}

// acceptsGzip says whether compressing is asked for and worth it: between two
// processes of one machine it only burns both their time.
func acceptsGzip(r *http.Request) bool {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return false
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}

// writeObject writes any API object that is not in the store.
func writeObject(w http.ResponseWriter, r *http.Request, code int, out output, o runtime.Object) {
	var data []byte
	var err error
	switch {
	case out.Media == mediaJSON && out.Pretty:
		if data, err = json.MarshalIndent(o, "", "  "); err == nil {
			data = append(data, '\n')
		}
	default:
		data, err = schema.Encode(o, schema.MediaType(out.Media.String()))
	}
	if err != nil { // a kind without protobuf
		out.Media = mediaJSON
		data, _ = schema.Encode(o, schema.JSON)
	}
	h := w.Header()
	h.Set("Content-Type", out.Media.String())
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(code)
	_, _ = w.Write(data)
}
