package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kjson "sigs.k8s.io/json"
)

// What the stored form of a few kinds differs in. Kubernetes keeps kinds that
// have protobuf in it, but for two: an APIService is JSON, and a
// CustomResourceDefinition is JSON of apiextensions.k8s.io/v1beta1, which says a
// schema once that all versions share. (Upstream: pkg/controlplane/apiserver,
// apiextensions.go and aggregator.go.) Some are kept in an older version whose
// protobuf is the same: a cluster may go back one release.

// olderForm is the version as which Kubernetes v1.36 writes a kind that it
// serves as v1; both have the same fields.
var olderForm = map[string]string{
	"MutatingAdmissionPolicy":        "admissionregistration.k8s.io/v1beta1",
	"MutatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1beta1",
}

// storedJSON says whether a kind with protobuf is kept as JSON.
func storedJSON(o Object) bool {
	switch o.(type) {
	case *apiregistrationv1.APIService, *apiextensionsv1.CustomResourceDefinition, *unstructured.Unstructured:
		return true
	}
	_, has := o.(protobufMessage)
	return !has
}

// definitionForms converts definitions between versions.
var definitionForms = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
})

// encodeDefinition writes a definition as Kubernetes keeps it.
func encodeDefinition(o *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	s, err := definitionForms()
	if err != nil {
		return nil, err
	}
	var hub apiextensions.CustomResourceDefinition
	var out apiextensionsv1beta1.CustomResourceDefinition
	if err := s.Convert(o.DeepCopy(), &hub, nil); err != nil {
		return nil, err
	}
	if err := s.Convert(&hub, &out, nil); err != nil {
		return nil, err
	}
	out.TypeMeta = metav1.TypeMeta{Kind: "CustomResourceDefinition", APIVersion: apiextensionsv1beta1.SchemeGroupVersion.String()}
	return encodeJSON(&out)
}

// decodeDefinition reads a definition that was kept as v1beta1; ok is false for
// data of another version.
func decodeDefinition(data []byte) (o Object, ok bool, err error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(data, &meta); err != nil || meta.APIVersion != apiextensionsv1beta1.SchemeGroupVersion.String() {
		return nil, false, err
	}
	s, err := definitionForms()
	if err != nil {
		return nil, true, err
	}
	var in apiextensionsv1beta1.CustomResourceDefinition
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &in); err != nil {
		return nil, true, err
	}
	s.Default(&in)
	var hub apiextensions.CustomResourceDefinition
	if err := s.Convert(&in, &hub, nil); err != nil {
		return nil, true, err
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Convert(&hub, out, nil); err != nil {
		return nil, true, err
	}
	out.TypeMeta = metav1.TypeMeta{Kind: "CustomResourceDefinition", APIVersion: apiextensionsv1.SchemeGroupVersion.String()}
	return out, true, nil
}

// decodeCustom reads a custom resource in whatever version it was kept.
func decodeCustom(data []byte) (Object, error) {
	u := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &u.Object); err != nil {
		return nil, err
	}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil, fmt.Errorf("apiVersion %q, kind %q: both must be there", u.GetAPIVersion(), u.GetKind())
	}
	return u, nil
}

// renameVersion renames the version in the envelope of protobuf data from that of the
// resource to the one that is written, or back.
func renameVersion(data []byte, from, to string) ([]byte, error) {
	body, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return data, nil
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(body); err != nil {
		return nil, fmt.Errorf("read envelope: %w", err)
	}
	if envelope.APIVersion != from {
		return data, nil
	}
	envelope.APIVersion = to
	out, err := envelope.Marshal()
	if err != nil {
		return nil, fmt.Errorf("write envelope: %w", err)
	}
	return append(append(make([]byte, 0, len(protobufPrefix)+len(out)), protobufPrefix...), out...), nil
}
