package apiserver

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
)

// resourceList is the document of /apis/<group>/<version>.
func (v *groupVersion) resourceList() *metav1.APIResourceList {
	l := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v.String()}
	if v.group == "" {
		l.APIVersion = "" // as upstream
	}
	for _, r := range v.resources {
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
	for _, q := range v.virtuals {
		l.APIResources = append(l.APIResources, metav1.APIResource{
			Name: q.Plural, SingularName: q.Singular, Namespaced: q.Namespaced, Kind: q.Kind, Verbs: q.verbs(),
			ShortNames: q.ShortNames,
		})
	}
	slices.SortStableFunc(l.APIResources, func(x, y metav1.APIResource) int { return strings.Compare(parent(x.Name), parent(y.Name)) })
	return l
}

// parent is the resource that a subresource belongs to.
func parent(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

// verbs of a resource. Namespaces are deleted one by one, so that none is by
// mistake.
func verbs(r *schema.Resource) []string {
	switch {
	case r.String() == "namespaces":
		return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	case isTerminating(r):
		return terminatingVerbs
	case r.Custom != nil:
		return customVerbs
	}
	return allVerbs
}

// Verbs of custom resources, in the order that upstream has them in.
var (
	customVerbs      = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	terminatingVerbs = []string{"delete", "deletecollection", "get", "list", "watch"}
)

// isTerminating says that the definition of a custom resource is being deleted,
// and that nothing may be created any more.
func isTerminating(r *schema.Resource) bool {
	t, ok := r.Custom.(interface{ Terminating() bool })
	return ok && t.Terminating()
}

// storageHash lets clients see when the stored form of a kind changes.
func storageHash(r *schema.Resource) string {
	group, version := r.Stored().Group, r.Stored().Version
	switch r.String() {
	case "customresourcedefinitions.apiextensions.k8s.io", "mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io":
		version = "v1beta1" // as upstream says, and, so that clients see no change, we do
	}
	if version == "" { // of a custom resource, which version is stored may change
		version = r.Stored().New().GetObjectKind().GroupVersionKind().Version
	}
	h := sha256.Sum256([]byte(group + "/" + version + "/" + r.Kind))
	return base64.StdEncoding.EncodeToString(h[:8])
}

// aggregated is the document of /api or /apis with all resources in it.
func (d *discovery) aggregated(version string, core bool) runtime.Object {
	l := &discoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + version}}
	for _, g := range d.groups {
		if core != (g.name == "") {
			continue
		}
		item := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			if v.other != nil {
				item.Versions = append(item.Versions, *v.other)
				continue
			}
			item.Versions = append(item.Versions, discoveryv2.APIVersionDiscovery{
				Version: v.version, Freshness: discoveryv2.DiscoveryFreshnessCurrent, Resources: v.aggregated(),
			})
		}
		l.Items = append(l.Items, item)
	}
	return l
}

func (v *groupVersion) aggregated() []discoveryv2.APIResourceDiscovery {
	var all []discoveryv2.APIResourceDiscovery
	for _, r := range v.resources {
		res := aggregatedResource(r, verbs(r))
		for _, sub := range subresources(r) {
			gvk := sub.gvk
			if gvk.Empty() {
				gvk = r.GVK()
			}
			if gvk.GroupVersion() == r.GVK().GroupVersion() && r.Custom == nil {
				gvk.Group, gvk.Version = "", ""
			}
			res.Subresources = append(res.Subresources, discoveryv2.APISubresourceDiscovery{
				Subresource: sub.name, Verbs: sub.verbs, ResponseKind: responseKind(gvk),
			})
		}
		all = append(all, res)
	}
	for _, q := range v.virtuals {
		all = append(all, aggregatedResource(q.Resource, q.verbs()))
	}
	slices.SortStableFunc(all, func(x, y discoveryv2.APIResourceDiscovery) int { return strings.Compare(x.Resource, y.Resource) })
	return all
}

func aggregatedResource(r *schema.Resource, verbs []string) discoveryv2.APIResourceDiscovery {
	gvk := r.GVK()
	if r.Custom == nil { // upstream says it of others only
		gvk.Group, gvk.Version = "", ""
	}
	scope := discoveryv2.ScopeCluster
	if r.Namespaced {
		scope = discoveryv2.ScopeNamespace
	}
	return discoveryv2.APIResourceDiscovery{
		Resource: r.Plural, ResponseKind: responseKind(gvk), Scope: scope, SingularResource: r.Singular,
		Verbs: verbs, ShortNames: r.ShortNames, Categories: r.Categories,
	}
}

func responseKind(gvk kschema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
