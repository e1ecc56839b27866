package apiserver

import (
	"crypto/sha256"
	"encoding/base64"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
)

// resourceList is the document of /apis/<group>/<version>.
func (g group) resourceList() *metav1.APIResourceList {
	l := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: g.groupVersion()}
	for _, r := range g.resources {
		l.APIResources = append(l.APIResources, metav1.APIResource{
			Name: r.Plural, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: verbs(r),
			ShortNames: r.ShortNames, Categories: r.Categories, StorageVersionHash: storageHash(r),
		})
		for _, sub := range subresources(r) {
			res := metav1.APIResource{Name: r.Plural + "/" + sub.name, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: sub.verbs}
			if !sub.gvk.Empty() {
				res.Kind = sub.gvk.Kind
			}
			if !sub.gvk.Empty() && sub.gvk.GroupVersion() != r.GVK().GroupVersion() {
				res.Group, res.Version = sub.gvk.Group, sub.gvk.Version
			}
			l.APIResources = append(l.APIResources, res)
		}
	}
	for _, v := range g.virtuals {
		l.APIResources = append(l.APIResources, metav1.APIResource{
			Name: v.Plural, SingularName: v.Singular, Namespaced: v.Namespaced, Kind: v.Kind, Verbs: []string{"create"},
		})
	}
	return l
}

// verbs of a resource. Namespaces are deleted one by one, so that none is by
// mistake.
func verbs(r *schema.Resource) []string {
	if r.String() == "namespaces" {
		return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return allVerbs
}

// storageHash lets clients see when the stored form of a kind changes.
func storageHash(r *schema.Resource) string {
	h := sha256.Sum256([]byte(r.Group + "/" + r.Version + "/" + r.Kind))
	return base64.StdEncoding.EncodeToString(h[:8])
}

// aggregated is the document of /api or /apis with all resources in it.
func (d *discovery) aggregated(version string, core bool) runtime.Object {
	l := &discoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + version}}
	for _, g := range d.groups {
		if core != (g.name == "") {
			continue
		}
		l.Items = append(l.Items, discoveryv2.APIGroupDiscovery{
			ObjectMeta: metav1.ObjectMeta{Name: g.name},
			Versions: []discoveryv2.APIVersionDiscovery{{
				Version: g.version, Freshness: discoveryv2.DiscoveryFreshnessCurrent, Resources: g.aggregated(),
			}},
		})
	}
	return l
}

func (g group) aggregated() []discoveryv2.APIResourceDiscovery {
	var all []discoveryv2.APIResourceDiscovery
	for _, r := range g.resources {
		res := aggregatedResource(r, verbs(r))
		for _, sub := range subresources(r) {
			gvk := sub.gvk
			if gvk.Empty() {
				gvk = r.GVK()
			}
			res.Subresources = append(res.Subresources, discoveryv2.APISubresourceDiscovery{
				Subresource: sub.name, Verbs: sub.verbs, ResponseKind: responseKind(gvk),
			})
		}
		all = append(all, res)
	}
	for _, v := range g.virtuals {
		all = append(all, aggregatedResource(v.Resource, []string{"create"}))
	}
	return all
}

func aggregatedResource(r *schema.Resource, verbs []string) discoveryv2.APIResourceDiscovery {
	scope := discoveryv2.ScopeCluster
	if r.Namespaced {
		scope = discoveryv2.ScopeNamespace
	}
	return discoveryv2.APIResourceDiscovery{
		Resource: r.Plural, ResponseKind: responseKind(r.GVK()), Scope: scope, SingularResource: r.Singular,
		Verbs: verbs, ShortNames: r.ShortNames, Categories: r.Categories,
	}
}

func responseKind(gvk kschema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
