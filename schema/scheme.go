package schema

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Scheme knows the Go types of Kubernetes v1.36 and of writ.dev.
var Scheme = func() *runtime.Scheme {
	s := clientscheme.Scheme
	if err := v1alpha1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

// Codecs encode and decode the types of Scheme.
var Codecs = serializer.NewCodecFactory(Scheme)
