package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// metaTypes are those that any group version answers with in protobuf.
var metaTypes = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err) // a table of the library
	}
	return s
}()

// encodeBody returns the bytes to send and their type.
func encodeBody(text, as string) (body, contentType string, err error) {
	if text == "" {
		return "", "", nil
	}
	contentType = "application/yaml"
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		contentType = "application/json"
	}
	if as == "" {
		return text, contentType, nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return "", "", err
	}
	switch as {
	case "cbor":
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return "", "", err
		}
		out, err := cbor.Marshal(v)
		return string(out), "application/cbor", err
	case "protobuf":
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return "", "", err
		}
		var out bytes.Buffer
		err = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &out)
		return out.String(), "application/vnd.kubernetes.protobuf", err
	}
	return "", "", fmt.Errorf("header Encode: %q is neither protobuf nor cbor", as)
}

// decode reads the documents of a body. A body that is no document is one
// string; an empty one none.
func decode(contentType string, body []byte) ([]any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return []any{string(body)}, nil
	}
	switch kind {
	case "application/json":
		return decodeJSON(body)
	case "application/yaml":
		data, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, fmt.Errorf("decode YAML: %w", err)
		}
		return decodeJSON(data)
	case "application/cbor":
		var v any
		if err := cbor.Unmarshal(body, &v); err != nil {
			return nil, fmt.Errorf("decode CBOR: %w", err)
		}
		return viaJSON(v)
	case "application/vnd.kubernetes.protobuf":
		return decodeProtobuf(body)
	}
	return []any{string(body)}, nil
}

func decodeProtobuf(body []byte) ([]any, error) {
	o, gvk, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		o, gvk, err = protobuf.NewSerializer(metaTypes, metaTypes).Decode(body, nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("decode protobuf: %w", err)
	}
	o.GetObjectKind().SetGroupVersionKind(*gvk)
	return viaJSON(o)
}

func viaJSON(v any) ([]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decodeJSON(data)
}

// decodeJSON reads one document after the other. What is no JSON is a string.
func decodeJSON(body []byte) (docs []any, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	for {
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return []any{string(body)}, nil //nolint:nilerr // shown as it is
		}
		docs = append(docs, v)
	}
}
