// Package identity names who acts in a cluster: the users and groups that
// writ itself issues credentials for or acts as. Users of a cluster bring
// others by RBAC; these are the ones that code refers to.
//
// It owns nothing and watches nothing.
package identity

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
)

// People and tools outside the cluster.
const (
	// Viewer is the user of viewer.kubeconfig: what people have until Git says
	// otherwise.
	Viewer = "viewer"
	// ViewersGroup reads everything but secrets.
	ViewersGroup = "writ:viewers"
	// Admin is the user of the break-glass credential.
	Admin = "writ:break-glass"
	// Pusher is the user of the credential that pushes to the built-in remote.
	Pusher = "pusher"
	// PushersGroup may push to the built-in Git remote.
	PushersGroup = "writ:pushers"
	// JoinersGroup is that of bootstrap tokens by which machines become nodes.
	JoinersGroup = "system:bootstrappers:writ:nodes"
	// ServersGroup is that of bootstrap tokens by which machines become servers:
	// they are given the keys of the cluster.
	ServersGroup = "system:bootstrappers:writ:servers"
)

// Parts of the cluster.
const (
	// Reconciler writes what Git declares, and is the only one that may.
	Reconciler = "system:writ:reconciler"
	// APIServer is the server itself: bootstrap objects, its own Service.
	APIServer = "system:apiserver"
	// KubeletClient is whom the server is when it calls a node.
	KubeletClient = "kube-apiserver-kubelet-client"
	// KubeletClientsGroup is that of its certificate. Nodes let it in, and API
	// servers refuse it: a node that leads such a call to an API server, instead
	// of to itself, must win nothing by it.
	KubeletClientsGroup = "system:writ:kubelet-clients"
	// NodePrefix begins the user name of every node.
	NodePrefix = "system:node:"
)

// NodeUser returns the user name of a node.
func NodeUser(node string) string { return NodePrefix + node }

// NodeName returns which node a user is; false when the user is none. As
// upstream, it takes the name and membership of system:nodes.
func NodeName(u user.Info) (string, bool) {
	if u == nil {
		return "", false
	}
	name, ok := strings.CutPrefix(u.GetName(), NodePrefix)
	if !ok || name == "" || !InGroup(u, user.NodesGroup) {
		return "", false
	}
	return name, true
}

// InGroup says whether a user is in a group.
func InGroup(u user.Info, group string) bool {
	for _, g := range u.GetGroups() {
		if g == group {
			return true
		}
	}
	return false
}

// System returns the identity under which a part of the server's own process
// acts. It is in system:masters: the process holds the store anyway, and what
// keeps its parts honest is the write guard, not RBAC.
func System(name string) user.Info {
	return &component{user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}}
}

// component is a part of this process.
type component struct{ user.DefaultInfo }

var _ client.Component = (*component)(nil)

// InProcess implements client.Component.
func (*component) InProcess() {}

// InProcess says whether a user is a part of this process.
func InProcess(u user.Info) bool {
	_, ok := u.(client.Component)
	return ok
}

// Is says whether a user is the part of this process with the name.
func Is(u user.Info, name string) bool { return InProcess(u) && u.GetName() == name }
