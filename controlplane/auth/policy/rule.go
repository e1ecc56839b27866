package policy

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Sets of verbs.
const (
	read      = "get list watch"
	write     = "create delete deletecollection patch update"
	readWrite = read + " " + write
	readWatch = "list watch"
	change    = "patch update"
)

// API groups. The core group is written "core" here.
const (
	core           = "core"
	apps           = "apps"
	batch          = "batch"
	autoscaling    = "autoscaling"
	extensions     = "extensions"
	policyGroup    = "policy"
	networking     = "networking.k8s.io"
	discovery      = "discovery.k8s.io"
	coordination   = "coordination.k8s.io"
	events         = "events.k8s.io"
	rbacGroup      = "rbac.authorization.k8s.io"
	storage        = "storage.k8s.io"
	scheduling     = "scheduling.k8s.io"
	resource       = "resource.k8s.io"
	authentication = "authentication.k8s.io"
	authorization  = "authorization.k8s.io"
	certificates   = "certificates.k8s.io"
	writ           = "writ.dev"
)

// rule grants verbs on resources of groups; each is a list of words. Words are
// sorted, as upstream stores them.
func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	g := strings.Fields(groups)
	for i := range g {
		if g[i] == core {
			g[i] = ""
		}
	}
	return rbacv1.PolicyRule{
		Verbs:         sorted(verbs),
		APIGroups:     g,
		Resources:     sorted(resources),
		ResourceNames: names,
	}
}

// urls grants verbs on paths that are no resources.
func urls(verbs, paths string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: sorted(verbs), NonResourceURLs: sorted(paths)}
}

// recordEvents is part of the role of whoever reports what it does.
func recordEvents() rbacv1.PolicyRule {
	return rule("create patch update", core+" "+events, "events")
}

func sorted(words string) []string {
	w := strings.Fields(words)
	slices.Sort(w)
	return w
}
