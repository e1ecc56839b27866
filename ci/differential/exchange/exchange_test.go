package exchange

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const file = `About.
-- a b/request --
POST /x?y=${rv}
User: alice,dev
Save: rv=metadata.resourceVersion

{"a": 1}

-- a b/response --
200 application/json

a: 1
-- c/request --
GET /x
`

func TestParse(t *testing.T) {
	f, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Exchanges) != 2 || f.Exchanges[0].Response == "" || f.Exchanges[1].Response != "" {
		t.Fatalf("parsed as %+v", f.Exchanges)
	}
	r := f.Exchanges[0].Request
	if r.Method != "POST" || r.Header.Get("User") != "alice,dev" || strings.TrimSpace(r.Body) != `{"a": 1}` {
		t.Errorf("request is %+v", r)
	}
	if got := string(f.Format()); got != file {
		t.Errorf("written as\n%s", got)
	}
	for _, bad := range []string{"-- a --\nGET /\n", "-- a/request --\nGET\n", "-- a/request --\nGET /\nheader\n", "-- a/response --\n200\n"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("parsed without an error: %q", bad)
		}
	}
}

// What differs from run to run is hidden, and nothing else.
func TestRender(t *testing.T) {
	now := time.Now().UTC().Format(time.RFC3339)
	body := `{"metadata": {"uid": "0f0a4b1c-7d4e-4f34-9d9c-3a1b2c3d4e5f", "resourceVersion": "512", "creationTimestamp": "` + now + `",
		"name": "g-abcde", "generateName": "g-", "managedFields": [{"manager": "b"}, {"manager": "a", "fieldsV1": {"f:x": {}}}]},
		"spec": {"clusterIP": "10.96.7.8", "given": "10.96.100.8", "nodePort": 30123, "fixed": 31001, "when": "2020-01-01T00:00:00Z"},
		"message": "object 512 of 5120, too old resource version: 1 (77)"}`
	docs, err := decode("application/json", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	saved := values{}
	if err := save([]string{"rv=metadata.resourceVersion"}, docs, saved); err != nil {
		t.Fatal(err)
	}
	got, err := render(&http.Response{StatusCode: 201, Header: http.Header{"Content-Type": {"application/json"}, "Warning": {"299 - x"}, "Date": {"x"}}}, docs, saved)
	if err != nil {
		t.Fatal(err)
	}
	want := `201 application/json
Warning: 299 - x

message: 'object ${rv} of 5120, too old resource version: <rv> (<rv>)'
metadata:
  creationTimestamp: <time>
  generateName: g-
  managedFields:
  - fieldsV1: '{"f:x":{}}'
    manager: a
  - manager: b
  name: g-<random>
  resourceVersion: <rv>
  uid: <uid>
spec:
  clusterIP: <ip>
  fixed: 31001
  given: 10.96.100.8
  nodePort: <port>
  when: "2020-01-01T00:00:00Z"
`
	if got != want {
		t.Errorf("rendered as\n%s", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Parse(first.Format())
		if err != nil || len(again.Exchanges) != len(first.Exchanges) {
			t.Errorf("written as %q: %v", first.Format(), err)
		}
	})
}
