package plan

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// OverQuota are the new objects among held for which a ResourceQuota leaves no
// room, of the plan or of the cluster, in the words of the server. The server
// itself cannot be asked yet: it does not know their kinds. Of custom resources
// a quota counts objects and nothing else (count/<plural>.<group>).
func OverQuota(p *Plan, held []Held, live client.Cache) []v1alpha1.Finding {
	quotas, room := quotasOf(p), map[string]map[schema.Key]int64{}
	var out []v1alpha1.Finding
	for i := range held {
		o := &held[i].Op
		if o.Action != Create || !o.Resource.Namespaced {
			continue
		}
		name := corev1.ResourceName("count/" + o.Resource.Plural + "." + o.Resource.Group)
		for _, q := range quotas.in(o.Key.Namespace, live) {
			limit, counts := q.Spec.Hard[name]
			if !counts {
				continue
			}
			used := room[string(name)]
			if used == nil {
				used = map[schema.Key]int64{}
				room[string(name)] = used
			}
			of := schema.Key{Namespace: q.Namespace, Name: q.Name}
			if _, known := used[of]; !known {
				was := q.Status.Used[name]
				used[of] = was.Value() - leaving(p, o.Resource, q.Namespace)
			}
			if used[of] < limit.Value() {
				used[of]++
				continue
			}
			out = append(out, v1alpha1.Finding{File: o.File, Line: o.Line, Column: o.Column, Object: o.Ref.String(), Rule: "Forbidden",
				Message: fmt.Sprintf("%s.%s %q is forbidden: exceeded quota: %s, requested: %s=1, used: %[5]s=%[6]d, limited: %[5]s=%[7]d",
					o.Resource.Plural, o.Resource.Group, o.Key.Name, q.Name, name, used[of], limit.Value())})
			break
		}
	}
	return out
}

// quotas are the ResourceQuotas that a plan writes; nil is one that it deletes.
type quotas map[schema.Key]*corev1.ResourceQuota

func quotasOf(p *Plan) quotas {
	kind, out := schema.ResourceFor[*corev1.ResourceQuota](), quotas{}
	for i := range p.Ops {
		if o := &p.Ops[i]; o.Resource == kind {
			q, _ := o.Object.(*corev1.ResourceQuota) // none of a deletion
			out[o.Key] = q
		}
	}
	return out
}

// in are the quotas of a namespace as they are once the plan is in the store.
func (qs quotas) in(namespace string, live client.Cache) []*corev1.ResourceQuota {
	var out []*corev1.ResourceQuota
	for _, q := range client.CachedList[*corev1.ResourceQuota](live, namespace) {
		key := schema.Key{Namespace: q.Namespace, Name: q.Name}
		planned, touched := qs[key]
		switch {
		case !touched:
			out = append(out, q)
		case planned != nil:
			whole := *q
			whole.Spec.Hard = maps.Clone(q.Spec.Hard) // others may have added limits
			if whole.Spec.Hard == nil {
				whole.Spec.Hard = corev1.ResourceList{}
			}
			maps.Copy(whole.Spec.Hard, planned.Spec.Hard)
			out = append(out, &whole)
		}
	}
	for key, q := range qs {
		if _, there := client.Cached[*corev1.ResourceQuota](live, key); q != nil && key.Namespace == namespace && !there {
			out = append(out, q)
		}
	}
	return out
}

// leaving counts what a plan deletes.
func leaving(p *Plan, r *schema.Resource, namespace string) int64 {
	n := int64(0)
	for i := range p.Ops {
		if o := &p.Ops[i]; o.Action == Delete && o.Resource == r && o.Key.Namespace == namespace {
			n++
		}
	}
	return n
}
