// Package render turns the files of a commit into manifests: YAML and JSON
// files as they are, CUE packages evaluated, kustomizations built, and the
// charts of the repository rendered that a HelmRelease asks for, with the
// variables of the cluster put in.
//
// It watches nothing and owns nothing; it reads the tree that it is given and
// never the network or the disk. It promises that the same files give the same
// manifests in the same order, that every manifest knows the file and line it
// came from, that all that is wrong with a file is reported and not only the
// first thing, and that hostile input costs a bounded amount of time and
// memory.
//
// What is rendered together is a Unit: one YAML or JSON file with the charts
// that it asks for, all files of one CUE package, or a kustomization with its
// bases. Kustomize and Helm are their own libraries, given files in memory:
// what would run a program, ask the network, the clock or the cluster is a
// finding. They and CUE can be neither interrupted nor bounded in memory, so a
// server has them run in a child process (package sandbox). A unit carries a hash of
// everything it reads, so that callers can leave out what has not changed:
//
//	tree ──Scan──> units (path, hash) ──Render, only the changed──> manifests + findings
//
// Who follows a repository reads it with a Memory: what Read then costs is what
// differs from the version before, and not what the repository holds.
package render
