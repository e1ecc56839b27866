// Package rbac judges roles and their bindings.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package rbac

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	ClusterRole, ClusterRoleBinding, Role, RoleBinding,
}
