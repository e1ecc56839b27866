package reconciler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
)

// kinds are the custom kinds that a commit may use: those that the cluster
// serves, and those that the commit itself defines, which go before.
type kinds struct {
	// hash changes when a manifest may be judged otherwise.
	hash    string
	catalog *schema.Catalog
	defined map[kschema.GroupVersionKind]*schema.Resource
}

// find returns the row of a kind; nil when there is none. What the cluster
// serves is written by the cluster's own row.
func (k *kinds) find(gvk kschema.GroupVersionKind) *schema.Resource {
	if r := k.catalog.ByGVK(gvk); r != nil {
		return r
	}
	return k.defined[gvk]
}

// rules is what custom resources of a kind are held against: the definition of
// the commit, else that of the cluster.
func (k *kinds) rules(r *schema.Resource) schema.Custom {
	if d := k.defined[r.GVK()]; d != nil {
		return d.Custom
	}
	return r.Custom
}

// definitions remembers the rows of the definitions of commits, so that a kind
// has one row as long as its definition stays.
type definitions struct {
	mu    sync.Mutex
	known map[string]*custom.Rows // by the hash of the manifest
}

// kindsOf are the kinds of a commit that has the definitions.
func (d *definitions) kindsOf(catalog *schema.Catalog, defs []definition) *kinds {
	k := &kinds{catalog: catalog, defined: map[kschema.GroupVersionKind]*schema.Resource{}}
	h := sha256.New()
	for _, r := range catalog.Custom() {
		fmt.Fprintf(h, "%p\n", r)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := map[string]*custom.Rows{}
	for _, def := range defs {
		rows := d.known[def.hash]
		if rows == nil {
			custom.Defaults(def.def)
			made, err := custom.Resources(def.def, nil, nil)
			if err != nil {
				continue // the schema has said what is wrong with it
			}
			rows = made
		}
		known[def.hash] = rows
		fmt.Fprintln(h, def.hash)
		for _, r := range rows.Served {
			k.defined[r.GVK()] = r
		}
	}
	if len(defs) > 0 {
		d.known = known
	}
	k.hash = hex.EncodeToString(h.Sum(nil)[:8])
	return k
}

// definition is a CustomResourceDefinition of a commit.
type definition struct {
	hash string
	def  *apiextensionsv1.CustomResourceDefinition
}

var crds = schema.ResourceFor[*apiextensionsv1.CustomResourceDefinition]()

// definitionsIn picks the definitions out of rendered manifests.
func definitionsIn(manifests []render.Manifest) []definition {
	var out []definition
	for i := range manifests {
		if manifests[i].Resource != crds {
			continue
		}
		def := &apiextensionsv1.CustomResourceDefinition{}
		if json.Unmarshal(manifests[i].JSON, def) == nil {
			out = append(out, definition{manifests[i].Hash, def})
		}
	}
	return out
}

// isCustom says whether what is known of a unit depends on custom kinds.
func (c *checked) isCustom() bool {
	return slices.ContainsFunc(c.heads, func(h render.Head) bool { return h.Resource.Custom != nil }) || c.unknown
}

// kinds are those that the cluster serves.
func (r *Reconciler) kinds() plan.Kinds { return r.cfg.Catalog.Load().ByGVK }

// served says whether the server knows a kind by now.
func (r *Reconciler) served(res *schema.Resource) bool {
	return r.cfg.Catalog.Load().ByGVK(res.GVK()) != nil
}
