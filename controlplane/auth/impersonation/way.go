package impersonation

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// way is one way to be allowed to act as another: a mode of KEP-5284, which
// takes a permission for the identity and one for what is done with it, or, with
// an empty name, impersonation of old, which takes the first alone.
type way struct {
	name string
	fits func(wanted *user.DefaultInfo, requestor user.Info) bool
}

// associated is a service account that acts as the node its pod runs on.
const associated = "associated-node"

// ways are all of them, in the order in which they are tried.
var ways = []*way{
	{associated, func(w *user.DefaultInfo, requestor user.Info) bool {
		node, ok := nodeName(w.Name)
		at := requestor.GetExtra()[serviceaccount.NodeNameKey]
		return ok && nameOnly(w) && isServiceAccount(requestor.GetName()) && len(at) == 1 && at[0] == node
	}},
	{"arbitrary-node", func(w *user.DefaultInfo, _ user.Info) bool {
		_, ok := nodeName(w.Name)
		return ok && nameOnly(w)
	}},
	{"serviceaccount", func(w *user.DefaultInfo, _ user.Info) bool { return nameOnly(w) && isServiceAccount(w.Name) }},
	{"user-info", func(w *user.DefaultInfo, _ user.Info) bool {
		_, node := nodeName(w.Name)
		return !node && !isServiceAccount(w.Name)
	}},
	{"", func(*user.DefaultInfo, user.Info) bool { return true }},
}

// verb is that of the permission for an identity.
func (w *way) verb() string {
	if w.name == "" {
		return "impersonate"
	}
	return "impersonate:" + w.name
}

// constraint is what the audit log says of the way.
func (w *way) constraint() string {
	if w.name == "" {
		return ""
	}
	return w.verb()
}

// requestor is who asks, as authorizers see it. Of a service account that acts
// as its own node they see no extra values, only which there are: the answer is
// the same on all nodes.
func (w *way) requestor(u user.Info) user.Info {
	if w.name != associated {
		return u
	}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: map[string][]string{
		"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(u.GetExtra())),
	}}
}

// become is the user that a request runs as. Nodes and service accounts have
// the groups that they always have; everybody has the one of being known.
func (w *way) become(wanted *user.DefaultInfo) user.Info {
	u := *wanted
	if _, node := nodeName(u.Name); node && w.name != "" {
		u.Groups = []string{user.NodesGroup}
	}
	if ns, _, err := serviceaccount.SplitUsername(u.Name); err == nil && len(u.Groups) == 0 {
		u.Groups = serviceaccount.MakeGroupNames(ns)
	}
	everybody := user.AllAuthenticated
	if u.Name == user.Anonymous {
		everybody = user.AllUnauthenticated
	} else if slices.Contains(u.Groups, user.AllUnauthenticated) {
		return &u
	}
	if !slices.Contains(u.Groups, everybody) {
		u.Groups = append(slices.Clone(u.Groups), everybody)
	}
	return &u
}

func nameOnly(u *user.DefaultInfo) bool {
	return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0
}

func isServiceAccount(name string) bool {
	_, _, err := serviceaccount.SplitUsername(name)
	return err == nil
}

func nodeName(name string) (string, bool) {
	node, ok := strings.CutPrefix(name, "system:node:")
	return node, ok && len(validation.NameIsDNSSubdomain(node, false)) == 0
}
