package aggregate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// read makes the aggregated form of discovery out of the plain one, which every
// server has: resources, each with its subresources.
func read(data []byte, version string) (*apidiscoveryv2.APIVersionDiscovery, error) {
	var list metav1.APIResourceList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	if list.Kind != "APIResourceList" {
		return nil, fmt.Errorf("the answer is no APIResourceList but %q", list.Kind)
	}
	gv, err := kschema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return nil, err
	}
	gv.Version = version
	return aggregated(&list, gv), nil
}

// aggregated puts subresources under their resources.
func aggregated(list *metav1.APIResourceList, gv kschema.GroupVersion) *apidiscoveryv2.APIVersionDiscovery {
	out := &apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	at := map[string]int{}
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		at[r.Name] = len(out.Resources)
		out.Resources = append(out.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: r.Name, ResponseKind: kindOf(r, gv), Scope: scope(r), SingularResource: r.SingularName,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	for _, r := range list.APIResources {
		parent, sub, ok := strings.Cut(r.Name, "/")
		if !ok {
			continue
		}
		i, known := at[parent]
		if !known {
			i = len(out.Resources)
			at[parent] = i
			out.Resources = append(out.Resources, apidiscoveryv2.APIResourceDiscovery{Resource: parent, ResponseKind: &metav1.GroupVersionKind{}, Scope: scope(r)})
		}
		out.Resources[i].Subresources = append(out.Resources[i].Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kindOf(r, gv), Verbs: r.Verbs})
	}
	return out
}

// kindOf is what the resource answers with; group and version are the list's
// where the resource does not say.
func kindOf(r metav1.APIResource, gv kschema.GroupVersion) *metav1.GroupVersionKind {
	k := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if k.Version == "" {
		k.Group, k.Version = gv.Group, gv.Version
	}
	return k
}

func scope(r metav1.APIResource) apidiscoveryv2.ResourceScope {
	if r.Namespaced {
		return apidiscoveryv2.ScopeNamespace
	}
	return apidiscoveryv2.ScopeCluster
}

// stale marks what was seen of a server that is not there now.
func stale(d *apidiscoveryv2.APIVersionDiscovery) *apidiscoveryv2.APIVersionDiscovery {
	if d == nil || d.Freshness == apidiscoveryv2.DiscoveryFreshnessStale {
		return d
	}
	d = d.DeepCopy()
	d.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
	return d
}

// hashOf names the state of a server: its OpenAPI document is fetched again
// when what it has changes.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// differs says whether new targets show anything else than the present ones.
func (a *Aggregator) differs(next map[kschema.GroupVersion]*target) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(next) != len(a.targets) {
		return true
	}
	for gv, t := range next {
		old := a.targets[gv]
		if old == nil || old.available != t.available || old.hash != t.hash || old.transport != t.transport ||
			!reflect.DeepEqual(old.spec, t.spec) || !reflect.DeepEqual(old.discovery, t.discovery) {
			return true
		}
	}
	return false
}
