// Package page is the read-only web page of a cluster: the timeline of
// commits, what a commit does, the objects with their owners and health, nodes
// and repositories.
//
// It watches every kind while somebody looks, and nothing otherwise. It owns
// nothing, writes nothing, and answers GET and HEAD only. What it shows, it
// shows as the viewer: an object that the viewer may not list or get is not
// there, neither in lists nor in counts, trees, plans or events. Values of
// Secrets are shown to nobody.
//
// Every page is HTML from the server and complete without JavaScript. With it,
// a page listens to one stream that says that something has changed, asks for
// itself again, and changes in place:
//
//	cache ──events──> hub ──"changed"──> stream ──> page.js ──GET──> the same page
//
// A request is read (world), decided (the functions in timeline, commit,
// objects, object, graph, nodes, repositories: values to values) and written
// (templates).
package page
