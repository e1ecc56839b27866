package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Membership says to which of some pools nodes belong. The controller that
// updates nodes, the agent that reads its settings and the plan of a commit all
// ask here. It never changes and may be used by several goroutines.
//
// +k8s:deepcopy-gen=false
type Membership struct{ choices []choice }

// choice is a pool with its selector, read.
//
// +k8s:deepcopy-gen=false
type choice struct {
	pool     *NodePool
	selector labels.Selector
}

// NewMembership reads the selectors of pools. One that cannot be read chooses
// nothing.
func NewMembership(pools []*NodePool) Membership {
	var m Membership
	for _, p := range pools {
		if sel, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector); err == nil {
			m.choices = append(m.choices, choice{p, sel})
		}
	}
	slices.SortFunc(m.choices, func(a, b choice) int {
		return cmp.Or(cmp.Compare(b.pool.Spec.Priority, a.pool.Spec.Priority), cmp.Compare(a.pool.Name, b.pool.Name))
	})
	return m
}

// PoolOf returns the pool of a node with these labels; nil when none chooses
// it.
func (m Membership) PoolOf(nodeLabels map[string]string) *NodePool {
	for _, c := range m.choices {
		if c.selector.Matches(labels.Set(nodeLabels)) {
			return c.pool
		}
	}
	return nil
}

// KernelArguments joins arguments as DesiredKernelArgumentsAnnotation has them.
func KernelArguments(arguments []string) string { return strings.Join(arguments, " ") }

// KernelArgumentsHash is what an agent reports of arguments that are joined by
// spaces: the first 16 hexadecimal digits of their SHA-256; "" of none.
func KernelArgumentsHash(joined string) string {
	if joined == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(joined))
	return hex.EncodeToString(sum[:8])
}
