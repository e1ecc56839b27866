// Package projects holds the shapes of real projects' manifests against writ
// check: what must come in as it is, and what is refused, with every word of why.
//
// A shape is a folder in testdata/*.txtar, as small as it may be and still be
// wrong in the way in which the project's own was; README.md counts whole
// projects. WRIT_PROJECTS names folders of other manifests, joined by colons,
// that are checked and counted besides.
package projects
