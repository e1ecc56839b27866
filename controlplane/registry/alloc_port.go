package registry

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind/valid"
)

// portClaims are the objects by which Services have node ports, one per port and
// named by its number. They are no part of the API: the registry alone writes
// them. (Upstream keeps one bitmap of all ports under one key, for which all
// writers compete.)
var portClaims = &schema.Resource{
	Version: "v1", Kind: "RangeAllocation", ListKind: "RangeAllocationList", Plural: "rangeallocations", Singular: "rangeallocation",
	StoragePrefix: "ranges/nodeports",
	New: func() schema.Object {
		return &corev1.RangeAllocation{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"}}
	},
}

func portKey(p int32) schema.Key { return schema.Key{Name: strconv.Itoa(int(p))} }

// portClaim is the object by which a Service has a port.
func portClaim(p int32, s *corev1.Service) *corev1.RangeAllocation {
	return &corev1.RangeAllocation{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"},
		ObjectMeta: metav1.ObjectMeta{Name: portKey(p).Name, CreationTimestamp: valid.Now()},
		Range:      portKey(p).Name,
		Data:       []byte(s.Namespace + "/" + s.Name),
	}
}

// portsOf are the node ports of a Service, each once: TCP and UDP may share one.
func portsOf(s *corev1.Service) []int32 {
	if s == nil {
		return nil
	}
	var ports []int32
	seen := map[int32]bool{0: true}
	add := func(p int32) {
		if !seen[p] {
			seen[p] = true
			ports = append(ports, p)
		}
	}
	for _, p := range s.Spec.Ports {
		add(p.NodePort)
	}
	add(s.Spec.HealthCheckNodePort)
	return ports
}

// namedPort says why a port that a Service asks for cannot be given out.
func (a *allocator) namedPort(o *overlay, p int32) error {
	if int(p) < a.ports[0] || int(p) > a.ports[1] {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", a.ports[0], a.ports[1])
	}
	if o.get(portClaims, portKey(p)) != nil {
		return errPortTaken
	}
	return nil
}

// nextPort finds a port that nobody has, from the upper part of the range first
// (KEP-3668).
func (a *allocator) nextPort(o *overlay) (int32, error) {
	first, end := int32(a.ports[0]), int32(a.ports[1]+1)
	band := first + portBand(end-first)
	if p, ok := a.portBetween(o, band, end); ok {
		return p, nil
	}
	if p, ok := a.portBetween(o, first, band); ok {
		return p, nil
	}
	return 0, errRangesFull
}

func (a *allocator) portBetween(o *overlay, from, to int32) (int32, bool) {
	if from >= to {
		return 0, false
	}
	n := to - from
	for i, start := int32(0), rand.Int32N(n); i < n; i++ {
		p := from + (start+i)%n
		if o.get(portClaims, portKey(p)) == nil && a.choose(&o.claims, portKey(p).Name) {
			return p, true
		}
	}
	return 0, false
}

// portBand is how many ports at the beginning of the range are given out last: a
// thirty-second, at least 16 and at most 128.
func portBand(size int32) int32 {
	if size <= 16 {
		return 0
	}
	return min(max(16, size/32), 128)
}
