package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// keeps decides about an object that another repository declares too: it is
// ours by a higher priority, or because its manifest takes it over by name.
func (c *computation) keeps(d *Desired, other declared) bool {
	theirs := other.in.Spec.Repository
	mine, their := c.in.Priorities[c.in.Repository], c.in.Priorities[theirs]
	from := c.movedFrom(d.Ref)
	switch {
	case mine > their:
		return true
	case mine < their, from == c.in.Repository:
		c.plan.Shadowed++
		c.consequence(d.Ref, "Shadowed", fmt.Sprintf("is kept by the repository %s, which declares it in %s:%d", theirs, other.file(), other.Line))
		return false
	case annotation(d.Fields, v1alpha1.MoveFromAnnotation) == theirs:
		c.consequence(d.Ref, "Moved", "is taken over from the repository "+theirs)
		return true
	case d.Fields == nil && from == theirs:
		return true // taken over before
	}
	c.find(d.Head, "", "Duplicate", fmt.Sprintf("%s is declared by the repository %s in %s:%d", d.Object(), theirs, other.file(), other.Line),
		fmt.Sprintf("an object belongs to one repository: remove it there, take it over with the annotation %s: %s, or give one of the two a priority",
			v1alpha1.MoveFromAnnotation, theirs))
	return false
}

// adopts says that an object becomes Git's which somebody else has made. From
// then on a commit that does not declare it deletes it.
func (c *computation) adopts(d *Desired, live schema.Object, owned bool) {
	if _, known := c.mine(d.Ref); known || owned {
		return
	}
	if _, theirs := c.others(d.Ref); theirs {
		return // said to be moved
	}
	by := "by somebody who left no name"
	if m := makers(live); len(m) > 0 {
		by = "by " + strings.Join(m, ", ")
	}
	c.consequence(d.Ref, "Adopted", "is adopted: it was made "+by+", and from now on Git owns it: a commit without it deletes it")
}

// makers are the field managers of an object, but for those of its status.
func makers(live schema.Object) []string {
	var out []string
	for _, m := range live.GetManagedFields() {
		if m.Subresource == "" && m.Manager != "" && !slices.Contains(out, m.Manager) {
			out = append(out, m.Manager)
		}
	}
	slices.Sort(out)
	return out
}

// movedFrom is the repository that the live object was taken over from.
func (c *computation) movedFrom(ref render.Ref) string {
	live, ok := c.in.Live.Get(ref.Resource, ref.Key)
	if !ok {
		return ""
	}
	return live.GetAnnotations()[v1alpha1.MoveFromAnnotation]
}

// kept says whether an object stays that Git does not declare any more, and
// refuses the commit where it must not go.
func (c *computation) kept(ref render.Ref, was declared, live schema.Object) bool {
	switch {
	case c.in.KeepUndeclared:
		c.consequence(ref, "Kept", "is not declared any more and stays: the repository does not prune")
		return true
	case live == nil:
		return false
	case protected(live):
		c.find(render.Head{Ref: ref, File: was.file(), Line: was.Line}, "", "Protected", ref.String()+" would be deleted and is protected",
			"declare it again, or remove the annotation "+v1alpha1.ProtectAnnotation+" in a commit of its own first")
		return true
	case pruneDisabled(live.GetAnnotations()):
		c.consequence(ref, "Kept", "is not declared any more and stays: its annotation says so")
		return true
	}
	return false
}

func protected(o schema.Object) bool {
	return o.GetAnnotations()[v1alpha1.ProtectAnnotation] == "true"
}

func pruneDisabled(a map[string]string) bool {
	return strings.EqualFold(a[v1alpha1.PruneAnnotation], "disabled") || strings.EqualFold(a[v1alpha1.FluxPruneAnnotation], "disabled") ||
		option(a[v1alpha1.ArgoOptionsAnnotation], "Prune=false")
}

func replaceable(a map[string]string) bool {
	return strings.EqualFold(a[v1alpha1.ReplaceAnnotation], "allowed") || strings.EqualFold(a[v1alpha1.FluxForceAnnotation], "enabled") ||
		option(a[v1alpha1.ArgoOptionsAnnotation], "Force=true")
}

func option(list, want string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(o) == want {
			return true
		}
	}
	return false
}

// annotation reads one annotation of a manifest.
func annotation(fields []byte, key string) string {
	var o struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal(fields, &o) != nil {
		return ""
	}
	return o.Metadata.Annotations[key]
}
