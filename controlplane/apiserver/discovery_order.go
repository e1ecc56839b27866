package apiserver

// priority is where a group, and a version in it, stand in discovery: clients
// that are given a name without a group take the first that has it.
type priority struct{ group, version int32 }

// customPriority is that of the groups of custom resources.
var customPriority = priority{1000, 100}

// stablePriority is that of the version v1 of most groups.
const stablePriority = 15

// groupPriorities are upstream's (pkg/controlplane/apiserver/aggregator.go,
// cmd/kube-apiserver/app/aggregator.go, v1.36).
var groupPriorities = map[string]int32{
	"":                             18000,
	"apiregistration.k8s.io":       17900,
	"apps":                         17800,
	"events.k8s.io":                17750,
	"authentication.k8s.io":        17700,
	"authorization.k8s.io":         17600,
	"autoscaling":                  17500,
	"batch":                        17400,
	"certificates.k8s.io":          17300,
	"networking.k8s.io":            17200,
	"policy":                       17100,
	"rbac.authorization.k8s.io":    17000,
	"storage.k8s.io":               16800,
	"apiextensions.k8s.io":         16700,
	"admissionregistration.k8s.io": 16700,
	"scheduling.k8s.io":            16600,
	"coordination.k8s.io":          16500,
	"node.k8s.io":                  16300,
	"discovery.k8s.io":             16200,
	"resource.k8s.io":              16200,
	"flowcontrol.apiserver.k8s.io": 16100,
	"internal.apiserver.k8s.io":    16000,
	"storagemigration.k8s.io":      15800,
	"writ.dev":                     1100,
}

// versionPriorities are those that differ from what the name says.
var versionPriorities = map[string]int32{
	"autoscaling/v2":     30,
	"resource.k8s.io/v1": 21,
}

func priorityOf(group, version string) priority {
	g, builtin := groupPriorities[group]
	if !builtin {
		return customPriority
	}
	if p, ok := versionPriorities[group+"/"+version]; ok {
		return priority{g, p}
	}
	if version == "v1" {
		return priority{g, stablePriority}
	}
	return priority{g, 9}
}
