// Package kinds is the table of all kinds that have something to say of
// themselves, by their resources.
//
// It watches nothing and owns nothing. It promises that a kind is there once: a
// second literal of a kind ends the program as it starts.
package kinds

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/admission"
	"github.com/writ-os/writ/schema/kind/apps"
	"github.com/writ-os/writ/schema/kind/autoscaling"
	"github.com/writ-os/writ/schema/kind/batch"
	"github.com/writ-os/writ/schema/kind/certificates"
	"github.com/writ-os/writ/schema/kind/coordination"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/extension"
	"github.com/writ-os/writ/schema/kind/flowcontrol"
	"github.com/writ-os/writ/schema/kind/network"
	"github.com/writ-os/writ/schema/kind/node"
	"github.com/writ-os/writ/schema/kind/policy"
	"github.com/writ-os/writ/schema/kind/rbac"
	"github.com/writ-os/writ/schema/kind/resource"
	"github.com/writ-os/writ/schema/kind/scheduling"
	"github.com/writ-os/writ/schema/kind/storage"
	"github.com/writ-os/writ/schema/kind/writ"
)

var all = table(slices.Concat(
	admission.Kinds,
	apps.Kinds,
	autoscaling.Kinds,
	batch.Kinds,
	certificates.Kinds,
	coordination.Kinds,
	core.Kinds,
	extension.Kinds,
	flowcontrol.Kinds,
	network.Kinds,
	node.Kinds,
	policy.Kinds,
	rbac.Kinds,
	resource.Kinds,
	scheduling.Kinds,
	storage.Kinds,
	writ.Kinds,
))

// table is the kinds by their resources; it panics where one is there twice.
func table(kinds []*kind.Kind) map[*schema.Resource]*kind.Kind {
	out := make(map[*schema.Resource]*kind.Kind, len(kinds))
	for _, k := range kinds {
		if out[k.Resource] != nil {
			panic(fmt.Sprintf("schema/kind: %s is registered twice", k.Resource))
		}
		out[k.Resource] = k
	}
	return out
}

// All are all of them, in no order.
func All() iter.Seq[*kind.Kind] { return maps.Values(all) }

// Of is the judge of the objects of a resource, in any of its versions; nil
// when there is nothing to say of them beyond their definition.
func Of(r *schema.Resource) *kind.Kind {
	if r.Custom != nil {
		return nil
	}
	return all[r.Stored()]
}
