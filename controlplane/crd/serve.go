package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
)

// manager owns what is written here, under the name that upstream's controllers
// have.
const manager = "kube-apiserver"

// serve brings catalog and store to what definitions say. What is to go leaves
// the catalog before the store, what is new is in the store before it is in the
// catalog.
func (p *Publisher) serve(ctx context.Context, defs []*apiextensionsv1.CustomResourceDefinition) error {
	want := map[types.UID]*apiextensionsv1.CustomResourceDefinition{}
	for _, def := range defs {
		if isTrue(def, apiextensionsv1.Established) && !overlaps(def) {
			want[def.UID] = def
		}
	}
	var gone []*served
	for uid, s := range p.served {
		if want[uid] == nil {
			gone = append(gone, s)
			delete(p.served, uid)
		}
	}
	if len(gone) > 0 {
		p.publish(defs)
	}
	var errs []error
	for _, s := range gone {
		if err := p.cfg.Store.Remove(ctx, s.rows.Stored); err != nil {
			errs = append(errs, fmt.Errorf("forget the objects of %s: %w", s.def.Name, err))
		}
		p.log.Info("custom resource is no longer served", "definition", s.def.Name)
	}
	changed := false
	for _, def := range defs {
		if want[def.UID] == nil {
			continue
		}
		did, err := p.serveOne(ctx, def)
		changed = changed || did
		errs = append(errs, err)
	}
	if changed {
		p.publish(defs)
	}
	return errors.Join(errs...)
}

// overlaps says that the objects of a definition would be kept where those of a
// built-in kind are. Such a definition is never served.
func overlaps(def *apiextensionsv1.CustomResourceDefinition) bool {
	prefix := def.Spec.Group + "/" + def.Spec.Names.Plural
	return slices.ContainsFunc(schema.Resources, func(r *schema.Resource) bool {
		return r.StoragePrefix == prefix || r.Group == def.Spec.Group && r.Plural == def.Spec.Names.Plural
	})
}

// serveOne makes the rows of a definition anew if it has changed.
func (p *Publisher) serveOne(ctx context.Context, def *apiextensionsv1.CustomResourceDefinition) (changed bool, err error) {
	s := p.served[def.UID]
	if s != nil && (s.def == def || s.def.ResourceVersion == def.ResourceVersion && equality.Semantic.DeepEqual(s.def.Status, def.Status)) {
		return false, nil
	}
	var before *custom.Rows
	if s != nil {
		before = s.rows
	}
	rows, err := custom.Resources(def, before, p.cfg.Webhooks.Post(def))
	if err != nil {
		p.log.Warn("custom resource cannot be served", "definition", def.Name, "err", err)
		return false, nil // only a change of the definition mends it
	}
	if s == nil {
		if err := p.cfg.Store.Add(ctx, rows.Stored); err != nil {
			return false, fmt.Errorf("keep the objects of %s: %w", def.Name, err)
		}
		p.log.Info("custom resource is served", "definition", def.Name)
	}
	p.served[def.UID] = &served{def: def, rows: rows}
	return true, nil
}

// publish replaces the catalog.
func (p *Publisher) publish(defs []*apiextensionsv1.CustomResourceDefinition) {
	var rows []*schema.Resource
	for _, def := range defs { // by age: discovery shows them in this order
		if s := p.served[def.UID]; s != nil {
			rows = append(rows, s.rows.Served...)
		}
	}
	p.cfg.Catalog.Publish(schema.NewCatalog(rows...))
}

// writeStatus stores the status that was decided. Who changed the definition
// meanwhile, or deleted it, has woken us again.
func (p *Publisher) writeStatus(ctx context.Context, def *apiextensionsv1.CustomResourceDefinition) error {
	_, err := p.cfg.Client.Update(ctx, p.crds, def.DeepCopy(), client.WriteOptions{Subresource: "status", FieldManager: manager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", def.Name, err)
	}
	return nil
}
