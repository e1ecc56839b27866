package endpointslicemirroring

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// placed is an address of a port, and whether it is ready.
type placed struct {
	corev1.EndpointAddress
	ready bool
}

// addressKey tells addresses apart, as upstream: by IP and by what is there.
type addressKey struct {
	ip  string
	uid types.UID
}

// repack brings subsets into the one form that says the same: ports with the same
// addresses are in one subset. An address that is both ready and not is not.
func repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	ports := []corev1.EndpointPort{}
	at := map[string]map[addressKey]placed{} // by port
	for i := range subsets {
		s := &subsets[i]
		of := s.Ports
		if len(of) == 0 {
			of = []corev1.EndpointPort{{Port: -1}} // headless: addresses without ports
		}
		for _, p := range of {
			k := portKey(p)
			if at[k] == nil {
				at[k] = map[addressKey]placed{}
				ports = append(ports, p)
			}
			for _, a := range s.Addresses {
				if was, ok := at[k][keyOf(&a)]; !ok || was.ready {
					at[k][keyOf(&a)] = placed{a, true}
				}
			}
			for _, a := range s.NotReadyAddresses {
				at[k][keyOf(&a)] = placed{a, false}
			}
		}
	}
	return regroup(ports, at)
}

func regroup(ports []corev1.EndpointPort, at map[string]map[addressKey]placed) []corev1.EndpointSubset {
	var out []corev1.EndpointSubset
	index := map[string]int{}
	for _, p := range ports {
		set := at[portKey(p)]
		keys := slices.SortedFunc(maps.Keys(set), func(a, b addressKey) int {
			return strings.Compare(a.ip+" "+string(a.uid), b.ip+" "+string(b.uid))
		})
		var id strings.Builder
		for _, k := range keys {
			fmt.Fprintf(&id, "%s %s %t\n", k.ip, k.uid, set[k].ready)
		}
		i, ok := index[id.String()]
		if !ok {
			i = len(out)
			index[id.String()] = i
			s := corev1.EndpointSubset{}
			for _, k := range keys {
				if set[k].ready {
					s.Addresses = append(s.Addresses, set[k].EndpointAddress)
				} else {
					s.NotReadyAddresses = append(s.NotReadyAddresses, set[k].EndpointAddress)
				}
			}
			out = append(out, s)
		}
		if p.Port != -1 {
			out[i].Ports = append(out[i].Ports, p)
		}
	}
	return out
}

func keyOf(a *corev1.EndpointAddress) addressKey {
	k := addressKey{ip: a.IP}
	if a.TargetRef != nil {
		k.uid = a.TargetRef.UID
	}
	return k
}

func portKey(p corev1.EndpointPort) string {
	return fmt.Sprintf("%q %q %d %q", p.Name, p.Protocol, p.Port, ptr.Deref(p.AppProtocol, ""))
}
