package render

import (
	"crypto/sha256"
	"encoding/hex"

	"cuelang.org/go/cue/ast"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Ref names one object of the cluster.
type Ref struct {
	Resource *schema.Resource
	Key      schema.Key
}

// String names the object in findings: Deployment/shop/web.
func (r Ref) String() string { return ObjectName(r.Resource.Kind, r.Key) }

// Head says which object a manifest declares, and where.
type Head struct {
	Ref

	File         string
	Line, Column int

	// Hash is the hash of the manifest's JSON, to see a change without showing
	// it.
	Hash string

	// Sealed says that the manifest is encrypted in the repository: its values
	// are shown to nobody. Masked says that it was read without the key.
	Sealed, Masked bool

	// Wave and DependsOn are what the annotations of that name say: the
	// object's place among the others of the commit.
	Wave      int
	DependsOn []string
}

// Object names the manifest in findings: Deployment/shop/web.
func (h *Head) Object() string { return h.Ref.String() }

// Manifest is one object that a commit declares.
type Manifest struct {
	Head
	// JSON is what the manifest declares: the fields of the file and no others.
	JSON []byte

	node *node
}

// Expr returns the manifest as CUE syntax whose positions point into the
// file. It is made when asked for: most manifests are never asked.
func (m *Manifest) Expr() ast.Expr { return m.node.expr() }

// ObjectName names an object in findings and texts: kind/namespace/name, or
// kind/name for a cluster-scoped one.
func ObjectName(kind string, key schema.Key) string { return kind + "/" + key.String() }

// Rendered is what became of a unit. Manifests are in the order of the file.
type Rendered struct {
	Manifests []Manifest
	Findings  []v1alpha1.Finding
	// Plain are values in plain text that the rules of sops in the tree say must be
	// encrypted.
	Plain []v1alpha1.Finding
	// Warnings are what the author should know, and what keeps nothing from being
	// applied.
	Warnings []v1alpha1.Finding

	unit *Unit // that is being rendered; nil in none
	home *node // namespace of objects that name none; nil: not in a chart

	sealed, masked bool
	redact         []func([]v1alpha1.Finding) []v1alpha1.Finding

	left left // of a child
}

func (r *Rendered) find(f v1alpha1.Finding) { r.Findings = append(r.Findings, f) }

// hashOf returns the hash that an inventory keeps of a rendered object.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12])
}

// NamespaceKind is the kind that other objects live in.
var NamespaceKind = kschema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
