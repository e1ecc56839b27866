package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// MediaType is an encoding of objects on the wire.
type MediaType string

// The encodings that Decode and Encode know.
const (
	JSON     MediaType = MediaType(runtime.ContentTypeJSON)
	YAML     MediaType = MediaType(runtime.ContentTypeYAML)
	Protobuf MediaType = MediaType(runtime.ContentTypeProtobuf)
)

// protobufPrefix opens every protobuf value, in etcd and on the wire.
var protobufPrefix = []byte("k8s\x00")

// protobufMessage is what the generated types of k8s.io/api implement.
type protobufMessage interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// HasProtobuf says whether the kind of the resource can be encoded in
// protobuf. Kinds of our own group cannot: they are JSON everywhere, as custom
// resources are.
func (r *Resource) HasProtobuf() bool {
	_, ok := r.New().(protobufMessage)
	return ok
}

// Decode reads one object of a resource. An apiVersion and kind that the data
// leaves out are filled in; others than the resource's are an error.
//
// If strict, unknown and duplicate fields come back as an error for which
// runtime.IsStrictDecodingError holds, together with the object: the caller
// decides between refusing and warning. Protobuf has no such fields.
func Decode(r *Resource, t MediaType, data []byte, strict bool) (Object, error) {
	o := r.New()
	want := o.GetObjectKind().GroupVersionKind()
	var problems []error
	var err error
	switch t {
	case JSON:
		problems, err = unmarshalJSON(data, o, strict)
	case YAML:
		problems, err = unmarshalYAML(data, o, strict)
	case Protobuf:
		err = unmarshalProtobuf(data, o)
	default:
		return nil, fmt.Errorf("decode %s: media type %q is not supported", r.Kind, t)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", r.Kind, err)
	}
	got := o.GetObjectKind().GroupVersionKind()
	if got.Kind != want.Kind && got.Kind != "" {
		return nil, fmt.Errorf("the kind in the data (%s) does not match the expected kind (%s)", got.Kind, want.Kind)
	}
	if gv := got.GroupVersion(); gv != want.GroupVersion() && !gv.Empty() {
		return nil, fmt.Errorf("the API version in the data (%s) does not match the expected API version (%s)", gv, want.GroupVersion())
	}
	o.GetObjectKind().SetGroupVersionKind(want)
	if len(problems) > 0 {
		return o, runtime.NewStrictDecodingError(problems)
	}
	return o, nil
}

// unmarshalJSON fills into, which may have its apiVersion and kind set, and
// returns unknown and duplicate fields apart when they are asked for.
func unmarshalJSON(data []byte, into any, strict bool) ([]error, error) {
	if strict {
		return kjson.UnmarshalStrict(data, into)
	}
	return nil, kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// unmarshalYAML converts to JSON first, as every Kubernetes client does:
// field names and number types follow the JSON tags.
func unmarshalYAML(data []byte, into any, strict bool) ([]error, error) {
	var problems []error
	if strict {
		if _, err := yaml.YAMLToJSONStrict(data); err != nil {
			problems = append(problems, err)
		}
	}
	j, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, err
	}
	more, err := unmarshalJSON(j, into, strict)
	return append(problems, more...), err
}

// unmarshalProtobuf opens the envelope and fills into with its content.
func unmarshalProtobuf(data []byte, into Object) error {
	m, ok := into.(protobufMessage)
	if !ok {
		return fmt.Errorf("%T has no protobuf form", into)
	}
	body, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return errors.New("the data is not protobuf of Kubernetes: prefix missing")
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(body); err != nil {
		return fmt.Errorf("read envelope: %w", err)
	}
	if envelope.ContentEncoding != "" {
		return fmt.Errorf("content encoding %q is not supported", envelope.ContentEncoding)
	}
	if err := m.Unmarshal(envelope.Raw); err != nil {
		return err
	}
	into.GetObjectKind().SetGroupVersionKind(envelope.GroupVersionKind())
	return nil
}

// protobufSerializer encodes in the form of Kubernetes: prefix, envelope with
// apiVersion and kind, message.
var protobufSerializer = protobuf.NewSerializer(Scheme, Scheme)

// Encode writes an object or a list, whose apiVersion and kind are set, for
// the wire. JSON ends with a newline, as the API server of Kubernetes writes it.
func Encode(o runtime.Object, t MediaType) ([]byte, error) {
	var data []byte
	var err error
	switch t {
	case JSON:
		data, err = encodeJSON(o)
	case YAML:
		data, err = yaml.Marshal(o)
	case Protobuf:
		data, err = runtime.Encode(protobufSerializer, o)
	default:
		err = fmt.Errorf("media type %q is not supported", t)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.GetObjectKind().GroupVersionKind().Kind, err)
	}
	return data, nil
}

func encodeJSON(o runtime.Object) ([]byte, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// EncodeStorage writes an object as Kubernetes stores it in etcd: protobuf in
// its envelope, or JSON for kinds without protobuf, and without the
// resourceVersion, which is the revision of the key. The object stays as it is.
func EncodeStorage(o Object) ([]byte, error) {
	if o.GetResourceVersion() != "" || o.GetSelfLink() != "" {
		o = shallowCopy(o)
		o.SetResourceVersion("")
		o.SetSelfLink("")
	}
	if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		data, err := encodeDefinition(d)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", d.Kind, d.Name, err)
		}
		return data, nil
	}
	if storedJSON(o) {
		return Encode(o, JSON)
	}
	data, err := Encode(o, Protobuf)
	if err != nil {
		return nil, err
	}
	if gvk := o.GetObjectKind().GroupVersionKind(); olderForm[gvk.Kind] != "" {
		return renameVersion(data, gvk.GroupVersion().String(), olderForm[gvk.Kind])
	}
	return data, nil
}

// DecodeStorage reads what EncodeStorage or a Kubernetes API server wrote for
// the resource. The caller sets the resourceVersion. Of a custom resource the
// object comes back in the version in which it was kept.
func DecodeStorage(r *Resource, data []byte) (Object, error) {
	o, err := decodeStorage(r, data)
	if err != nil {
		return nil, fmt.Errorf("read stored %s: %w", r, err)
	}
	defaultOnRead(o)
	return o, nil
}

// defaultOnRead fills in what Kubernetes stores without and shows with: it
// clears the status of a new object after its defaults were set, and sets them
// again whenever it reads.
func defaultOnRead(o Object) {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.ClaimPending
		}
	case *corev1.PersistentVolume:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.VolumePending
		}
	}
}

func decodeStorage(r *Resource, data []byte) (Object, error) {
	switch o := r.New().(type) {
	case *unstructured.Unstructured:
		return decodeCustom(data)
	case *apiextensionsv1.CustomResourceDefinition:
		if d, ok, err := decodeDefinition(data); ok || err != nil {
			return d, err
		}
	default:
		if from := olderForm[r.Kind]; from != "" && !storedJSON(o) {
			var err error
			if data, err = renameVersion(data, from, r.APIVersion()); err != nil {
				return nil, err
			}
		}
	}
	t := JSON
	if bytes.HasPrefix(data, protobufPrefix) {
		t = Protobuf
	}
	o, err := Decode(r, t, data, false)
	if s, ok := o.(*appsv1.StatefulSet); ok && err == nil {
		// Protobuf does not keep what the templates are.
		for i := range s.Spec.VolumeClaimTemplates {
			s.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		}
	}
	return o, err
}

// shallowCopy copies the outer struct only, enough to set fields of its
// metadata that are not behind a pointer.
func shallowCopy(o Object) Object {
	if u, ok := o.(*unstructured.Unstructured); ok {
		c := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
		if meta, ok := u.Object["metadata"].(map[string]any); ok {
			c.Object["metadata"] = maps.Clone(meta)
		}
		return c
	}
	v := reflect.New(reflect.TypeOf(o).Elem())
	v.Elem().Set(reflect.ValueOf(o).Elem())
	return v.Interface().(Object)
}
