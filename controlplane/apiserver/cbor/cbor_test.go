package cbor

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

func TestAccept(t *testing.T) {
	for _, tt := range []struct {
		header, want string
		cbor         bool
	}{
		{"application/cbor", "application/json", true},
		{"application/cbor,application/json", "application/json", true},
		{"application/json, application/cbor", "application/json", false},
		{"application/json;q=0.5,application/cbor;q=0.9", "application/json", true},
		{"application/cbor;as=Table;g=meta.k8s.io;v=v1,application/json", "application/json; as=Table; g=meta.k8s.io; v=v1", true},
		{"application/cbor-seq", "application/json", true},
		{"", "", false},
		{";;;,/", "", false},
	} {
		h := http.Header{}
		if tt.header != "" {
			h.Set("Accept", tt.header)
		}
		got, cbor := preferred(h)
		if cbor != tt.cbor || cbor && got != tt.want {
			t.Errorf("%s: %q %v", tt.header, got, cbor)
		}
	}
}

var limits = Limits{Body: 1000, Within: time.Second}

// echo answers with the body that it got, and says how it was called.
func echo(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Content-Type", r.Header.Get("Content-Type"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(data)
}

func TestRoundTrip(t *testing.T) {
	want := map[string]any{"a": int64(1), "b": []any{"x", true, nil, 1.5}, "big": int64(1) << 53}
	body, err := direct.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for content, called := range map[string]string{"application/cbor": "application/json", "application/apply-patch+cbor": "application/apply-patch+yaml"} {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", content)
		r.Header.Set("Accept", "application/cbor")
		w := httptest.NewRecorder()
		Handler(http.HandlerFunc(echo), limits).ServeHTTP(w, r)
		var got map[string]any
		if err := direct.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || w.Code != http.StatusCreated || w.Header().Get("Content-Type") != "application/cbor" || w.Header().Get("X-Content-Type") != called {
			t.Errorf("%s: %d %v %s", content, w.Code, w.Header(), diff)
		}
		if !bytes.HasPrefix(w.Body.Bytes(), selfDescribed) {
			t.Error("the answer does not say that it is CBOR")
		}
	}
}

func TestBadBody(t *testing.T) {
	for body, code := range map[string]int{"\xff\xff": 400, "": 400, strings.Repeat("\x80", 2000): 413} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/cbor")
		w := httptest.NewRecorder()
		Handler(http.HandlerFunc(echo), limits).ServeHTTP(w, r)
		var s struct{ Kind, Reason string }
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != code || s.Kind != "Status" {
			t.Errorf("%q: %d %s", body[:min(4, len(body))], w.Code, w.Body)
		}
	}
}

// TestStream: each event is written when it is whole.
func TestStream(t *testing.T) {
	h := Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for _, part := range []string{"{\"type\":\"ADDED\"}\n{\"ty", "pe\":\"DELETED\"}\n"} {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}), limits)
	r := httptest.NewRequest("GET", "/?watch=1", nil)
	r.Header.Set("Accept", "application/cbor-seq")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	parts := bytes.Split(w.Body.Bytes(), selfDescribed)
	if len(parts) != 3 || w.Header().Get("Content-Type") != "application/cbor-seq" {
		t.Fatalf("%d parts, %v", len(parts), w.Header())
	}
	for i, want := range []string{"ADDED", "DELETED"} {
		var ev map[string]any
		if err := direct.Unmarshal(parts[i+1], &ev); err != nil || ev["type"] != want {
			t.Errorf("event %d: %v %v", i, ev, err)
		}
	}
}

func TestOthersPass(t *testing.T) {
	h := Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "log line\n") }), limits)
	for _, accept := range []string{"application/json", "application/cbor"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Body.String() != "log line\n" {
			t.Errorf("%s: %q", accept, w.Body)
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Add([]byte{0xa1, 0x61, 'a', 1})
	f.Add(append(append([]byte{}, selfDescribed...), 0x80))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/cbor")
		r.Header.Set("Accept", "application/cbor")
		w := httptest.NewRecorder()
		Handler(http.HandlerFunc(echo), limits).ServeHTTP(w, r)
		var v any
		if err := direct.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatalf("%x becomes %x: %v", body, w.Body.Bytes(), err)
		}
	})
}
