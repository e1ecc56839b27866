package cli

import (
	"context"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
)

// readKinds are the kinds that the cluster serves.
func readKinds(ctx context.Context, c client.Reader) (*schema.Catalog, error) {
	defs, err := client.ListAll[*apiextensionsv1.CustomResourceDefinition](ctx, c, client.ListOptions{})
	if apierrors.IsForbidden(err) {
		return schema.Builtin, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list custom resource definitions: %w", err)
	}
	return schema.NewCatalog(rowsOf(defs)...), nil
}

// rowsOf are the rows of definitions. One that is wrong has none: the plan says
// what is wrong with it.
func rowsOf(defs []*apiextensionsv1.CustomResourceDefinition) []*schema.Resource {
	var rows []*schema.Resource
	for _, def := range defs {
		def = def.DeepCopy()
		custom.Defaults(def)
		if made, err := custom.Resources(def, nil, nil); err == nil {
			rows = append(rows, made.Served...)
		}
	}
	return rows
}

// renderedWith are the manifests of a tree as far as they render; those of
// kinds that the tree itself defines are among them.
func renderedWith(ctx context.Context, t render.Tree, box *sandbox.Sandbox, served *schema.Catalog) []render.Manifest {
	if served == nil {
		served = schema.Builtin
	}
	all := manifests(ctx, t, box, served)
	var defs []*apiextensionsv1.CustomResourceDefinition
	for i := range all {
		def := &apiextensionsv1.CustomResourceDefinition{}
		if all[i].Resource.Kind == "CustomResourceDefinition" && json.Unmarshal(all[i].JSON, def) == nil {
			defs = append(defs, def)
		}
	}
	if len(defs) == 0 {
		return all
	}
	return manifests(ctx, t, box, schema.NewCatalog(append(served.Custom(), rowsOf(defs)...)...))
}

func manifests(ctx context.Context, t render.Tree, box *sandbox.Sandbox, kinds *schema.Catalog) []render.Manifest {
	units, _, err := render.Scan(t, render.Options{Kinds: kinds.ByGVK, Sandbox: box})
	if err != nil {
		return nil
	}
	var all []render.Manifest
	for i := range units {
		if out, err := render.Render(ctx, &units[i]); err == nil {
			all = append(all, out.Manifests...)
		}
	}
	return all
}
