package render

import (
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
)

// Packed is manifests as a child gets them: what they declare, and where.
type Packed struct {
	Heads []PackedHead
	Nodes nodes // of each
}

// PackedHead is as much of a Head as rules are told.
type PackedHead struct {
	GVK          kschema.GroupVersionKind
	Namespaced   bool
	Key          schema.Key
	File         string
	Line, Column int
	Sealed       bool
}

// Pack packs manifests.
func Pack(manifests []*Manifest) Packed {
	var w nodeWriter
	out := Packed{Heads: make([]PackedHead, len(manifests))}
	for i, m := range manifests {
		r := m.Resource
		out.Heads[i] = PackedHead{kschema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}, r.Namespaced, m.Key, m.File, m.Line, m.Column, m.Sealed}
		w.node(m.node)
	}
	out.Nodes = w.nodes
	return out
}

// Unpack makes manifests of packed ones; they have no JSON.
func (p Packed) Unpack() ([]Manifest, error) {
	r := newNodeReader(p.Nodes, 8*maxValues)
	out := make([]Manifest, len(p.Heads))
	for i, h := range p.Heads {
		out[i].Head = Head{Ref: Ref{&schema.Resource{Group: h.GVK.Group, Version: h.GVK.Version, Kind: h.GVK.Kind, Namespaced: h.Namespaced}, h.Key},
			File: h.File, Line: h.Line, Column: h.Column, Sealed: h.Sealed}
		out[i].node = r.child(0)
	}
	return out, r.err
}
