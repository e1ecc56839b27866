// Package cbor lets clients speak CBOR (KEP-4222) to a server that speaks JSON:
// bodies are turned into JSON on the way in, answers into CBOR on the way out,
// those of a watch event by event.
//
// It watches nothing and owns nothing. It promises that a request which names
// no CBOR passes untouched, that a body which is no CBOR is a 400, and that no
// more of a body is read than the server would read.
//
// Upstream has it behind the feature gate CBORServingAndStorage, which is off
// by default in v1.36.
package cbor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// The types that patches of server-side apply have in both encodings.
const (
	applyCBOR = "application/apply-patch+cbor"
	applyYAML = "application/apply-patch+yaml"
)

// selfDescribed is the tag that Kubernetes' CBOR begins with (RFC 8949, 3.4.6).
var selfDescribed = []byte{0xd9, 0xd9, 0xf7}

// Limits bound what a client may send.
type Limits struct {
	Body   int64         // bytes
	Within time.Duration // in which it must be here
}

// Handler turns CBOR into JSON for next, and its answers into CBOR for who
// wants that.
func Handler(next http.Handler, limits Limits) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept, wanted := preferred(r.Header)
		if wanted {
			r = r.Clone(r.Context())
			r.Header.Set("Accept", accept)
			r.Header.Del("Accept-Encoding") // what is compressed cannot be turned
			out := newWriter(w)
			defer out.finish()
			w = out
		}
		body, err := readBody(w, r, limits)
		if err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, body)
	})
}

// readBody returns the request with a JSON body, if it has one of CBOR.
func readBody(w http.ResponseWriter, r *http.Request, limits Limits) (*http.Request, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != runtime.ContentTypeCBOR && media != applyCBOR {
		return r, nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(limits.Within)) // where there is one to set
	data, err := io.ReadAll(io.LimitReader(r.Body, limits.Body+1))
	_ = rc.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read request body: %w", err)
	case int64(len(data)) > limits.Body:
		return nil, errTooLarge
	}
	var v any
	if err := direct.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("decode CBOR: %w", err)
	}
	if data, err = json.Marshal(v); err != nil {
		return nil, fmt.Errorf("decode CBOR: %w", err)
	}
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	out.Header.Set("Content-Length", strconv.Itoa(len(data)))
	out.Header.Set("Content-Type", runtime.ContentTypeJSON)
	if media == applyCBOR {
		out.Header.Set("Content-Type", applyYAML)
	}
	return out, nil
}

var errTooLarge = errors.New("request body is too large")

// refuse answers a body that cannot be read, as the server would.
func refuse(w http.ResponseWriter, cause error) {
	s := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: cause.Error(),
		Reason: metav1.StatusReasonBadRequest, Code: http.StatusBadRequest}
	if errors.Is(cause, errTooLarge) {
		s.Reason, s.Code = metav1.StatusReasonRequestEntityTooLarge, http.StatusRequestEntityTooLarge
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(s.Code))
	_ = json.NewEncoder(w).Encode(s)
}

// preferred says whether the best clause of an Accept header is CBOR, and what
// to ask the server for instead.
func preferred(h http.Header) (accept string, cbor bool) {
	best := -1.0
	for clause := range strings.SplitSeq(strings.Join(h["Accept"], ","), ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(clause))
		if err != nil {
			continue
		}
		q := 1.0
		if v, err := strconv.ParseFloat(params["q"], 64); err == nil {
			q = v
		}
		if q <= best {
			continue
		}
		delete(params, "q")
		best, cbor = q, media == runtime.ContentTypeCBOR || media == runtime.ContentTypeCBORSequence
		accept = mime.FormatMediaType(runtime.ContentTypeJSON, params)
	}
	return accept, cbor
}

// encode turns a JSON value into CBOR.
func encode(data []byte) ([]byte, error) {
	var v any
	if err := utiljson.Unmarshal(data, &v); err != nil { // whole numbers stay whole
		return nil, err
	}
	out, err := direct.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(append(make([]byte, 0, len(out)+len(selfDescribed)), selfDescribed...), out...), nil
}
