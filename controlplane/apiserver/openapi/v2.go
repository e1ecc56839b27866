package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

//go:embed docs/v2
var v2Files embed.FS

// The parts of the OpenAPI v2 document around its paths and its definitions.
const (
	V2Head        = `{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.36.4"},"paths":{`
	V2Definitions = `},"definitions":{`
	V2Tail        = `},"security":[{"BearerToken":[]}],"securityDefinitions":{"BearerToken":{"type":"apiKey","description":"Bearer Token authentication","name":"authorization","in":"header"}}}`
)

// V2 returns the OpenAPI v2 document of the built-in kinds as JSON, and the
// same as a gnostic protobuf message.
func V2() (doc, pb *Document, err error) {
	if doc, err = v2JSON(); err != nil {
		return nil, nil, err
	}
	pb, err = v2PB()
	return doc, pb, err
}

var (
	v2JSON = sync.OnceValues(func() (*Document, error) { return v2File("swagger.json") })
	v2PB   = sync.OnceValues(func() (*Document, error) { return v2File("swagger.pb") })
)

func v2File(name string) (*Document, error) {
	data, err := v2Files.ReadFile("docs/v2/" + name + ".gz")
	if err != nil {
		return nil, fmt.Errorf("read embedded document: %w", err)
	}
	return newDocument(name, data), nil
}

// PartsV2 are what is added to the document of the built-in kinds.
type PartsV2 struct {
	Paths, Definitions, Parameters map[string]json.RawMessage
}

// v2Parameters stands before shared parameters, of which the built-in kinds have
// none.
const v2Parameters = `},"parameters":{`

// MergeV2 adds parts to the document of the built-in kinds, as JSON and as
// protobuf. Neither is decoded for it: JSON is spliced, and protobuf messages
// that follow each other are one message.
func MergeV2(doc, pb []byte, parts PartsV2) (mergedDoc, mergedPB []byte, err error) {
	paths, definitions, parameters := inner(parts.Paths), inner(parts.Definitions), inner(parts.Parameters)
	at := bytes.Index(doc, []byte(V2Definitions))
	if !bytes.HasPrefix(doc, []byte(V2Head)) || !bytes.HasSuffix(doc, []byte(V2Tail)) || at < 0 {
		return nil, nil, errors.New("merge OpenAPI v2: the embedded document has another form")
	}
	var b bytes.Buffer
	for _, p := range [][]byte{
		[]byte(V2Head), join(paths, doc[len(V2Head):at]),
		[]byte(V2Definitions), join(definitions, doc[at+len(V2Definitions):len(doc)-len(V2Tail)]),
		[]byte(v2Parameters), parameters, []byte(V2Tail),
	} {
		b.Write(p)
	}
	small := V2Head + string(paths) + V2Definitions + string(definitions) + v2Parameters + string(parameters) + "}}"
	parsed, err := openapi_v2.ParseDocument([]byte(small))
	if err != nil {
		return nil, nil, fmt.Errorf("merge OpenAPI v2: %w", err)
	}
	more, err := proto.Marshal(parsed)
	if err != nil {
		return nil, nil, fmt.Errorf("merge OpenAPI v2: %w", err)
	}
	return b.Bytes(), append(bytes.Clone(pb), more...), nil
}

// inner is what a JSON object has between its braces.
func inner(object map[string]json.RawMessage) []byte {
	data, err := json.Marshal(object)
	if err != nil || len(object) == 0 {
		return nil
	}
	return data[1 : len(data)-1]
}

func join(a, b []byte) []byte {
	if len(a) == 0 || len(b) == 0 {
		return append(bytes.Clone(a), b...)
	}
	return append(append(bytes.Clone(a), ','), b...)
}
