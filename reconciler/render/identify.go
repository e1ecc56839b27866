package render

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/token"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// defaultNamespace is where namespaced objects go that name none.
const defaultNamespace = "default"

// identify turns a value into manifests: one, or those of a List.
func identify(out *Rendered, n *node) {
	if out.home == nil && n.get("apiVersion") == nil && n.get("kind") == nil && others(n.pos.Filename()) {
		return
	}
	if n.kind != mapNode {
		f := at(n.pos, "MissingKind", "is no manifest: a manifest is a map with apiVersion and kind")
		f.Hint = "if it is not meant for the cluster, list the file in " + ignoreFile
		out.find(f)
		return
	}
	apiVersion, kind := n.str("apiVersion"), n.str("kind")
	if items := n.get("items"); items != nil && items.kind == listNode && strings.HasSuffix(kind, "List") {
		expand(out, n, apiVersion, strings.TrimSuffix(kind, "List"))
		return
	}
	if out.home == nil && !(out.unit != nil && out.unit.CUE()) { // charts and packages have their own ways
		substitute(out, n)
		apiVersion, kind = n.str("apiVersion"), n.str("kind")
	}
	if isRelease(n) {
		if out.home != nil {
			out.find(at(n.pos, "Forbidden", "a chart cannot declare a HelmRelease"))
			return
		}
		renderRelease(out, n)
		return
	}
	switch {
	case apiVersion == "" && kind == "":
		f := at(n.pos, "MissingKind", "has no apiVersion and no kind, so it is no manifest")
		f.Hint = "if it is not meant for the cluster, list the file in " + ignoreFile
		out.find(f)
	case kind == "":
		f := at(n.pos, "MissingKind", "has no kind")
		f.Field = "kind"
		out.find(f)
	case apiVersion == "":
		f := at(n.pos, "MissingKind", kind+" has no apiVersion")
		f.Field = "apiVersion"
		f.Hint = hintVersion(kind, "")
		out.find(f)
	case out.unit != nil && out.unit.child:
		out.leave(n)
	default:
		manifest(out, n, apiVersion, kind)
	}
}

// expand reads the items of a List. Those of a typed one may leave out what
// the list already says.
func expand(out *Rendered, n *node, apiVersion, kind string) {
	for _, item := range n.get("items").items {
		if kind != "" && item.kind == mapNode {
			item.setDefault("apiVersion", apiVersion)
			item.setDefault("kind", kind)
		}
		identify(out, item)
	}
}

// manifest adds one manifest, or says why it is none.
func manifest(out *Rendered, n *node, apiVersion, kind string) {
	gv, err := kschema.ParseGroupVersion(apiVersion)
	var options *Options
	if out.unit != nil {
		options = out.unit.opts
	}
	r := options.kind(gv.WithKind(kind))
	if err != nil || r == nil {
		out.find(unknownKind(n, apiVersion, kind))
		return
	}
	key := schema.Key{Namespace: n.str("metadata", "namespace"), Name: n.str("metadata", "name")}
	switch {
	case r.Namespaced && key.Namespace == "" && out.home != nil:
		key.Namespace = out.home.text
		if m := n.get("metadata"); m != nil && m.kind == mapNode {
			m.remove("namespace")
			m.fields = append(m.fields, field{"namespace", out.home.pos, out.home})
		}
	case r.Namespaced && key.Namespace == "":
		key.Namespace = defaultNamespace
	case !r.Namespaced && key.Namespace != "":
		f := at(n.get("metadata", "namespace").pos, "Forbidden", kind+" does not belong to a namespace, and is made without")
		f.Object, f.Field, f.Hint = ObjectName(kind, schema.Key{Name: key.Name}), "metadata.namespace", "remove the line"
		out.Warnings = append(out.Warnings, f)
		key.Namespace = ""
		n.get("metadata").remove("namespace")
	}
	for _, f := range serverFields(n) {
		f.Object = ObjectName(kind, key)
		out.find(f)
	}
	clean(n, r)
	data := n.appendJSON(make([]byte, 0, 1024))
	head := Head{Ref: Ref{r, key}, File: n.pos.Filename(), Line: n.pos.Line(), Column: n.pos.Column(), Hash: hashOf(data)}
	place(out, n, &head)
	out.Manifests = append(out.Manifests, Manifest{
		Head: head,
		JSON: data,
		node: n,
	})
}

// serverFields finds what only the cluster can say of an object: it comes from
// manifests that were read out of a cluster.
func serverFields(n *node) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, name := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "deletionTimestamp", "selfLink"} {
		v := n.get("metadata", name)
		if v == nil || v.kind == nullNode {
			continue
		}
		f := at(v.pos, "Forbidden", "metadata."+name+" is the cluster's to set")
		f.Field, f.Hint = "metadata."+name, "remove it"
		out = append(out, f)
	}
	return out
}

// clean takes out what a manifest may carry and nobody can declare: the status
// and the empty creation time that tools print. The strings of a Secret become
// the data that the server would make of them.
func clean(n *node, r *schema.Resource) {
	if r.Status {
		n.remove("status")
	}
	for _, meta := range []*node{n.get("metadata"), n.get("spec", "template", "metadata")} {
		if t := meta.get("creationTimestamp"); t != nil && t.kind == nullNode {
			meta.remove("creationTimestamp")
		}
	}
	if r.Kind == "Secret" && r.Group == "" {
		encodeSecret(n)
	}
}

func encodeSecret(n *node) {
	texts := n.get("stringData")
	if texts == nil || texts.kind != mapNode {
		return
	}
	for _, f := range texts.fields {
		if f.val.kind != stringNode {
			return // the schema says what is wrong
		}
	}
	data := n.get("data")
	if data == nil || data.kind != mapNode {
		n.remove("data")
		data = &node{kind: mapNode, pos: texts.pos}
		n.fields = append(n.fields, field{"data", texts.pos, data})
	}
	again := make(map[string]bool, len(texts.fields))
	for _, f := range texts.fields {
		again[f.key] = true
	}
	data.fields = slices.DeleteFunc(slices.Clone(data.fields), func(f field) bool { return again[f.key] })
	for _, f := range texts.fields {
		v := &node{kind: stringNode, pos: f.val.pos, text: base64.StdEncoding.EncodeToString([]byte(f.val.text))}
		data.fields = append(data.fields, field{f.key, f.pos, v})
	}
	n.remove("stringData")
}

// unknownKind says that there is no such kind, and which the author may mean.
func unknownKind(n *node, apiVersion, kind string) v1alpha1.Finding {
	f := at(n.get("kind").pos, "UnknownKind", fmt.Sprintf("there is no kind %s in %s", kind, apiVersion))
	f.Field, f.Object = "kind", ObjectName(kind, schema.Key{Namespace: n.str("metadata", "namespace"), Name: n.str("metadata", "name")})
	if kind == "Kustomization" && strings.HasPrefix(apiVersion, "kustomize.config.k8s.io/") {
		f.Hint = "name the file kustomization.yaml, and it is built"
		return f
	}
	if kind == releaseKind {
		f.Hint = "commit the chart, and ask for it with apiVersion: " + releaseGroup + "v1alpha1 and spec.chart: ./folder"
		return f
	}
	group, _, _ := strings.Cut(apiVersion, "/")
	foreign := strings.Contains(apiVersion, "/") && !builtInGroup(group)
	if foreign {
		f.Hint = "commit the CustomResourceDefinition of " + kind + " with it, or install what brings it first"
		if near := nearGroup(group); near != "" {
			f.Hint = "did you mean the group " + near + "?"
		}
		return f
	}
	if h := hintVersion(kind, apiVersion); h != "" {
		f = at(n.get("apiVersion").pos, f.Rule, f.Message)
		f.Field, f.Hint = "apiVersion", h
		return f
	}
	best := 1 + len(kind)/4
	for _, r := range schema.Resources {
		if d := distance(strings.ToLower(kind), strings.ToLower(r.Kind)); d <= best {
			best, f.Hint = d-1, fmt.Sprintf("did you mean %s in %s?", r.Kind, r.APIVersion())
		}
	}
	return f
}

// builtInGroup says whether a group is, or was, one of Kubernetes or ours.
func builtInGroup(group string) bool {
	return group == "extensions" || slices.ContainsFunc(schema.Resources, func(r *schema.Resource) bool { return r.Group == group })
}

// nearGroup is the built-in group that was probably meant; "" where none is near.
func nearGroup(group string) string {
	near, best := "", 3
	for _, r := range schema.Resources {
		if d := distance(group, r.Group); d < best && r.Group != "" {
			near, best = r.Group, d
		}
	}
	return near
}

// hintVersion names the apiVersion of a kind.
func hintVersion(kind, not string) string {
	for _, r := range schema.Resources {
		if r.Kind == kind && r.APIVersion() != not {
			return fmt.Sprintf("did you mean apiVersion: %s?", r.APIVersion())
		}
	}
	return ""
}

func at(p token.Pos, rule, message string) v1alpha1.Finding {
	return v1alpha1.Finding{File: p.Filename(), Line: p.Line(), Column: p.Column(), Rule: rule, Message: message}
}

// distance is how many letters must change to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
