// Package reference says of which other objects an object speaks, and whether
// these are there: the ConfigMap of a volume, the Service of an Ingress, the
// pods that a Service selects, the port that a backend names.
//
// It watches nothing and owns nothing; it is made of functions of values. Of
// reads what one object says (Facts), Space holds the facts of one namespace
// against each other. Whether an object is there is for the caller to know: it
// may be declared in the commit, by another repository, or by nobody.
//
// It promises to be silent where nothing is wrong: about references that are
// optional, about what every cluster has, and about what an operator is about
// to make of a custom resource.
package reference
