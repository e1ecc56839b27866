package schema

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "d", ResourceVersion: "77", Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"k": "v"},
	}
}

// TestStorageIsUpstreams compares with what the storage codec of Kubernetes
// writes for the same object.
func TestStorageIsUpstreams(t *testing.T) {
	o := configMap()
	got, err := EncodeStorage(o)
	if err != nil {
		t.Fatal(err)
	}
	plain := o.DeepCopy()
	plain.ResourceVersion = ""
	info, _ := runtime.SerializerInfoForMediaType(Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	want, err := runtime.Encode(Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), plain)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("stored bytes differ from upstream's:\n%q\n%q", got, want)
	}
	if o.ResourceVersion != "77" {
		t.Error("EncodeStorage changed the object")
	}
	back, err := DecodeStorage(ResourceOf(o), got)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, Object(plain)) {
		t.Errorf("read back %#v, want %#v", back, plain)
	}
}

func TestStorageOfOwnKindsIsJSON(t *testing.T) {
	o := &v1alpha1.Commit{
		TypeMeta:   metav1.TypeMeta{Kind: "Commit", APIVersion: "writ.dev/v1alpha1"},
		ObjectMeta: metav1.ObjectMeta{Name: "main-0123", ResourceVersion: "5"},
		Spec:       v1alpha1.CommitSpec{Repository: "main", SHA: "0123"},
	}
	r := ResourceOf(o)
	if r.HasProtobuf() {
		t.Fatal("a kind of our own claims to have protobuf")
	}
	data, err := EncodeStorage(o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte(`{"kind":"Commit","apiVersion":"writ.dev/v1alpha1"`)) || bytes.Contains(data, []byte("resourceVersion")) {
		t.Errorf("stored %s", data)
	}
	back, err := DecodeStorage(r, data)
	if err != nil {
		t.Fatal(err)
	}
	if back.(*v1alpha1.Commit).Spec != o.Spec {
		t.Errorf("read back %#v", back)
	}
	if _, err := Encode(o, Protobuf); err == nil {
		t.Error("protobuf of a kind without protobuf succeeded")
	}
}

func TestDecodeStrict(t *testing.T) {
	r := ResourceFor[*corev1.ConfigMap]()
	for _, tt := range []struct {
		name   string
		media  MediaType
		data   string
		strict []string // parts of the strict error
		fatal  string   // part of the fatal error
	}{
		{name: "good", media: JSON, data: `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}`},
		{name: "kind left out", media: JSON, data: `{"data":{"a":"b"}}`},
		{name: "unknown field", media: JSON, data: `{"dta":{"a":"b"},"metadata":{"nam":"x"}}`, strict: []string{`unknown field "dta"`, `unknown field "metadata.nam"`}},
		{name: "duplicate field", media: JSON, data: `{"data":{"a":"b"},"data":{"a":"c"}}`, strict: []string{`duplicate field "data"`}},
		{name: "case matters", media: JSON, data: `{"Data":{"a":"b"}}`, strict: []string{`unknown field "Data"`}},
		{name: "yaml", media: YAML, data: "data: {a: b}\n"},
		{name: "yaml duplicate key", media: YAML, data: "data: {a: b}\ndata: {a: c}\n", strict: []string{"already set in map"}},
		{name: "wrong kind", media: JSON, data: `{"apiVersion":"v1","kind":"Secret"}`, fatal: "does not match the expected kind (ConfigMap)"},
		{name: "wrong version", media: JSON, data: `{"apiVersion":"v2","kind":"ConfigMap"}`, fatal: "the API version in the data (v2) does not match the expected API version (v1)"},
		{name: "wrong type", media: JSON, data: `{"data":[]}`, fatal: "cannot unmarshal array"},
		{name: "cut off", media: JSON, data: `{"data":`, fatal: "unexpected end of JSON"},
		{name: "no protobuf", media: Protobuf, data: `{"data":{}}`, fatal: "prefix missing"},
		{name: "broken protobuf", media: Protobuf, data: "k8s\x00\xff\xff", fatal: "read envelope"},
		{name: "media type", media: "text/plain", data: `x`, fatal: "not supported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := Decode(r, tt.media, []byte(tt.data), true)
			switch {
			case tt.fatal != "":
				if err == nil || runtime.IsStrictDecodingError(err) || !strings.Contains(err.Error(), tt.fatal) {
					t.Errorf("err = %v, want one with %q", err, tt.fatal)
				}
				return
			case tt.strict != nil:
				if !runtime.IsStrictDecodingError(err) {
					t.Fatalf("err = %v, want a strict decoding error", err)
				}
				for _, s := range tt.strict {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("err = %v, want one with %q", err, s)
					}
				}
			case err != nil:
				t.Fatal(err)
			}
			if k := o.GetObjectKind().GroupVersionKind(); k != r.GVK() {
				t.Errorf("kind = %v", k)
			}
			if _, err := Decode(r, tt.media, []byte(tt.data), false); err != nil {
				t.Errorf("not strict: %v", err)
			}
		})
	}
}

// TestEveryKindSurvivesStorage stores an empty object of every row.
func TestEveryKindSurvivesStorage(t *testing.T) {
	for _, r := range Resources {
		data, err := EncodeStorage(r.New())
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		back, err := DecodeStorage(r, data)
		if err != nil {
			t.Errorf("%s: %v", r, err)
		} else if back.GetObjectKind().GroupVersionKind() != r.GVK() {
			t.Errorf("%s: kind %v", r, back.GetObjectKind().GroupVersionKind())
		}
	}
}

func FuzzDecode(f *testing.F) {
	data, err := EncodeStorage(configMap())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"data":{"a":"b"}}`))
	f.Add([]byte("k8s\x00"))
	r := ResourceFor[*corev1.ConfigMap]()
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := DecodeStorage(r, data)
		if err != nil {
			return
		}
		if _, err := EncodeStorage(o); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}
