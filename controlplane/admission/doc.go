// Package admission looks at every write before it is stored: what Git
// declares is the reconciler's alone (the write guard), and what Kubernetes
// demands of or adds to an object beyond its own kind (namespaces that end,
// service accounts of pods, priorities, tolerations, node restrictions).
//
// Each plugin is one file and implements registry.Admission. A plugin reads
// other objects through Attributes.Cluster, so that it sees what came before it
// in the same transaction.
//
// Watches Inventories (the guard). Owns nothing: it changes only the object
// that is being written.
package admission
