package update

import (
	"context"
	"fmt"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Image is what the node has to know of a NodeImage.
type Image struct {
	Name, Version, URL string
	Digest             string // sha256:<64 hexadecimal digits>, of the bundle
	Size               int64  // of the bundle in bytes; 0 where it is not declared
	Arch               string // as GOARCH; "" for any
}

// Images finds NodeImages.
type Images interface {
	Get(ctx context.Context, name string) (Image, error)
}

// NodeImages are those of the cluster.
func NodeImages(c client.Reader) Images { return nodeImages{c} }

type nodeImages struct{ c client.Reader }

func (n nodeImages) Get(ctx context.Context, name string) (Image, error) {
	o, err := client.Get[*v1alpha1.NodeImage](ctx, n.c, schema.Key{Name: name})
	if err != nil {
		return Image{}, fmt.Errorf("read NodeImage %s: %w", name, err)
	}
	i := Image{Name: name, Version: o.Spec.Version, URL: o.Spec.Source.URL, Digest: o.Spec.Digest, Arch: o.Spec.Arch}
	if o.Spec.Size != nil {
		i.Size = *o.Spec.Size
	}
	return i, nil
}
