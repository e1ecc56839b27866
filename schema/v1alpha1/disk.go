package v1alpha1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// DiskLabel is the label of the file system of a declared disk.
func DiskLabel(name string) string { return "writ-" + name }

// DiskPath is where a declared disk is mounted.
func DiskPath(name string) string { return "/var/mnt/" + name }

// Empty says that nothing is asked of a disk.
func (m *NodeDiskMatch) Empty() bool { return *m == NodeDiskMatch{} }

// SizeBound is one bound of a disk's size.
//
// +k8s:deepcopy-gen=false
type SizeBound struct {
	Op    string // one of >= <= > <
	Bytes int64
}

// Holds says whether a size in bytes is within the bound.
func (b SizeBound) Holds(bytes int64) bool {
	switch b.Op {
	case ">=":
		return bytes >= b.Bytes
	case "<=":
		return bytes <= b.Bytes
	case ">":
		return bytes > b.Bytes
	}
	return bytes < b.Bytes
}

// SizeBounds reads the size of a NodeDiskMatch; "" has none.
func SizeBounds(text string) ([]SizeBound, error) {
	if text == "" {
		return nil, nil
	}
	var out []SizeBound
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		n := 1
		if len(part) > 1 && part[1] == '=' {
			n = 2
		}
		if part == "" || part[0] != '<' && part[0] != '>' {
			return nil, fmt.Errorf("size %q: want bounds like \">= 10Gi\"", text)
		}
		q, err := resource.ParseQuantity(strings.TrimSpace(part[n:]))
		if err != nil {
			return nil, fmt.Errorf("size %q: %w", text, err)
		}
		out = append(out, SizeBound{Op: part[:n], Bytes: q.Value()})
	}
	return out, nil
}
