package identity

import (
	"fmt"
	"net/netip"
	"strings"
)

// ReservedNode says why no node may have a name; "" when one may. A node's name
// is in the certificate that it serves by: it must not be one by which others
// call an API server or a Service, nor one that reads as an address.
func ReservedNode(name string) string {
	lower := strings.TrimSuffix(strings.ToLower(name), ".")
	_, err := netip.ParseAddr(lower)
	first, _, _ := strings.Cut(lower, ".")
	switch {
	case first == "kubernetes", first == "kube-apiserver":
		return fmt.Sprintf("the name %q is reserved for the API server", name)
	case first == "localhost", strings.HasSuffix(lower, ".localhost"):
		return fmt.Sprintf("the name %q is reserved for the machine itself", name)
	case strings.HasSuffix(lower, ".svc"), strings.Contains(lower, ".svc."), strings.HasSuffix(lower, ".cluster.local"), lower == "cluster.local":
		return fmt.Sprintf("the name %q is reserved for Services", name)
	case err == nil:
		return fmt.Sprintf("the name %q is an address", name)
	}
	return ""
}
