package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// hidden stands for a value that is not shown.
const hidden = "(hidden)"

// show turns changes into what people see. Values of Secrets, and of what is
// encrypted in the repository, are not among it.
func show(h *render.Head, changes []change) []Diff {
	secret := h.Resource.Kind == "Secret" && h.Resource.Group == ""
	out := make([]Diff, 0, len(changes))
	for _, c := range changes {
		d := Diff{Path: pathText(c.path), Old: text(c.old), New: text(c.new)}
		if h.Sealed || secret && (strings.HasPrefix(d.Path, "data") || strings.HasPrefix(d.Path, "stringData")) {
			d.Old, d.New = mask(d.Old), mask(d.New)
		}
		out = append(out, d)
	}
	return out
}

func text(v value.Value) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v.Unstructured())
	if err != nil {
		return "?"
	}
	return string(data)
}

func mask(s string) string {
	if s == "" {
		return ""
	}
	return hidden
}

// fixedField is a field that changes and may not.
type fixedField struct{ path, fixed, old string }

// immutable returns the changes of fields that no update may change.
func immutable(d *Desired, live schema.Object, changes []change) []fixedField {
	var out []fixedField
	all := fixedFields(d.Resource, live)
	for _, ch := range changes {
		p := pathText(ch.path)
		for _, fixed := range all {
			if ch.old == nil || p != fixed && !strings.HasPrefix(p, fixed+".") && !strings.HasPrefix(p, fixed+"[") && !strings.HasPrefix(fixed, p+".") {
				continue
			}
			out = append(out, fixedField{p, fixed, text(ch.old)})
			break
		}
	}
	return out
}

// fixedFields are the fields that no update of a live object may change: those
// of its kind, and the contents of a ConfigMap or a Secret that says so.
func fixedFields(r *schema.Resource, live schema.Object) []string {
	var says *bool
	switch o := live.(type) {
	case *corev1.ConfigMap:
		says = o.Immutable
	case *corev1.Secret:
		says = o.Immutable
	}
	if says == nil || !*says {
		return r.Immutable
	}
	return append(slices.Clone(r.Immutable), "data", "binaryData", "stringData", "immutable")
}

// replace makes an update of fields that cannot be changed a replacement, if
// the manifest allows it, or did when it was last applied: the revert of a
// replacement, which takes the annotation back too, is one as well. Otherwise it
// is refused.
func (c *computation) replace(d *Desired, op *Op, live schema.Object, fixed []fixedField) {
	allowed := replaceable(op.Object.GetAnnotations())
	before := !allowed && replaceable(ownAnnotations(live))
	if !allowed && !before {
		for _, f := range fixed {
			if d.Sealed {
				f.old = hidden
			}
			c.find(d.Head, f.path, "Immutable", fmt.Sprintf("%s of a %s cannot be changed once it is set (it is %s)", f.fixed, d.Resource.Kind, f.old),
				"give the object another name, or let it be deleted and made anew: annotate it with "+v1alpha1.ReplaceAnnotation+": allowed")
		}
		return
	}
	if protected(live) {
		c.find(d.Head, fixed[0].path, "Protected", d.Object()+" would be replaced and is protected",
			"remove the annotation "+v1alpha1.ProtectAnnotation+" in a commit of its own first")
		return
	}
	op.Action = Replace
	message := "it is deleted and made anew: " + fixed[0].fixed + " cannot be changed"
	if before {
		message += ", and the manifest that is in force allows that"
	}
	c.consequence(d.Ref, "Replace", message)
	c.losses(d.Ref, live)
}

// ownAnnotations are the annotations of a live object that Git declares.
func ownAnnotations(live schema.Object) map[string]string {
	out := map[string]string{}
	for k, v := range live.GetAnnotations() {
		if Owns(live, "metadata", "annotations", k) {
			out[k] = v
		}
	}
	return out
}

func (c *computation) consequence(ref render.Ref, kind, message string) {
	c.plan.Consequences = append(c.plan.Consequences, Consequence{Object: ref.String(), Kind: kind, Message: message})
}

// restarts tells which pods an update replaces.
func (c *computation) restarts(op Op, live schema.Object) {
	template := false
	if op.Action == Replace {
		return // said already
	}
	for _, d := range op.Diffs {
		template = template || strings.HasPrefix(d.Path, "spec.template")
	}
	if !template {
		return
	}
	var how string
	switch o := live.(type) {
	case *appsv1.Deployment:
		how = fmt.Sprintf("its %d pods are replaced step by step", o.Status.Replicas)
		if o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			how = fmt.Sprintf("its %d pods are stopped, then started anew", o.Status.Replicas)
		}
		if o.Status.Replicas == 0 {
			return
		}
	case *appsv1.StatefulSet:
		how = fmt.Sprintf("its %d pods are replaced one after the other", o.Status.Replicas)
	case *appsv1.DaemonSet:
		how = fmt.Sprintf("its pods on %d nodes are replaced", o.Status.DesiredNumberScheduled)
	default:
		return
	}
	c.plan.Consequences = append(c.plan.Consequences, Consequence{Object: op.Ref.String(), Kind: "Restart", Message: how})
}

// losses tells which data a deletion may destroy.
func (c *computation) losses(ref render.Ref, live schema.Object) {
	add := func(kind, message string) { c.consequence(ref, kind, message) }
	switch ref.Resource.Kind {
	case "PersistentVolumeClaim":
		add("DataLoss", "the data of the volume may be lost with the claim")
	case "PersistentVolume":
		add("DataLoss", "the data of the volume may be lost")
	case "Namespace":
		add("NamespaceDelete", "everything in the namespace is deleted, whether Git declares it or not")
	case "StatefulSet":
		s, ok := live.(*appsv1.StatefulSet)
		if ok && len(s.Spec.VolumeClaimTemplates) > 0 && !deletesClaims(s) {
			add("DataLoss", "its volume claims stay and belong to nobody")
		}
	}
}

// deletesClaims says whether the claims of a set go with it.
func deletesClaims(s *appsv1.StatefulSet) bool {
	p := s.Spec.PersistentVolumeClaimRetentionPolicy
	return p != nil && p.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// guard refuses a commit that deletes more than its author can have meant.
func (c *computation) guard() {
	deletes := c.plan.Count(Delete) + c.plan.Count(Replace)
	if c.in.AllowDeletes || deletes == 0 {
		return
	}
	what := "the commit deletes"
	if c.alongside > 0 {
		what = fmt.Sprintf("with what goes along (%d) the commit deletes", c.alongside)
		deletes += c.alongside
	}
	before := c.before.declared(c.in.Kinds)
	add := func(rule, message string) {
		c.plan.Findings = append(c.plan.Findings, v1alpha1.Finding{Rule: rule, Message: message,
			Hint: "if it is meant, add the line \"Writ-Allow-Deletes: true\" to the commit message"})
	}
	limit, percent := budget(c.in.MaxDeletes, 50), budget(c.in.MaxDeletePercent, 20)
	switch {
	case c.plan.Declared == 0:
		add("EmptyRepository", fmt.Sprintf("the commit declares no object at all; %d would be deleted", deletes))
	case deletes > limit:
		add("TooManyDeletes", fmt.Sprintf("%s %d objects; without a word %d may go", what, deletes, limit))
	case deletes > freeDeletes && deletes*100 > (before+c.alongside)*percent:
		add("TooManyDeletes", fmt.Sprintf("%s %d of %d objects; without a word %d %% may go", what, deletes, before+c.alongside, percent))
	}
}

func budget(n *int32, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(*n)
}
