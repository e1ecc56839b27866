// Package twin keeps two machines from being one node.
//
// A node is known by its name alone: whoever has a token may ask for the
// certificate of any name, and Kubernetes lets the second machine of a name take
// over the Node of the first, run its pods and overwrite its status. So a machine
// looks before it becomes a node.
//
// It watches the Node of its name and the Node's Lease. It owns the two fields of
// the Node's status that say which machine it is, in the moment in which it takes a
// name over. It promises that a machine which gives signs of life keeps its name,
// that nothing is taken over by a clock that is wrong (it waits and sees for itself
// whether the Lease changes), that of two machines which wait for a name one gets
// it, and that a machine which was installed anew gets its name back without help.
package twin
