// Package plan says what a commit would do to the cluster: what is created,
// changed field by field, and deleted, in which order, and what follows from
// it. The same code decides what is applied and what `writ plan` shows.
//
// It watches nothing, owns nothing and writes nothing: Compute is a function
// of values. It promises that
//
//   - applying a plan and computing it again gives an empty one;
//   - only what an inventory of the repository declares is ever deleted, and an
//     object that moves between files is not;
//   - only fields that Git declares, or has declared, are compared: what
//     controllers and other managers keep is left alone;
//   - the values of Secrets never leave it.
package plan
