// Package apiserver serves the Kubernetes API over HTTP.
//
//	request ──> route ──> authenticate ──> limit ──> authorize ──┬─ read ───> store snapshot ──> shared bytes
//	                                                             ├─ watch ──> store events ────> shared frames
//	                                                             ├─ write ──> registry (admission, rules, store)
//	                                                             └─ proxy ──> node agent (log, exec, ...)
//
// It watches nothing and owns nothing: objects live in the store, rules in the
// registry, permissions in auth. What it knows is the wire: paths and verbs,
// encodings (JSON, YAML, protobuf), Tables, partial metadata, discovery,
// OpenAPI, and the texts and codes that clients branch on.
//
// It promises:
//   - A LIST is one consistent state, and so are all of its pages; the
//     resourceVersion it carries resumes a WATCH without gap.
//   - Objects are encoded once however many clients read them.
//   - A slow client costs its own connection only, and a client that asks for
//     too much cannot keep the cluster's own parts from the server.
//   - Errors are metav1.Status with upstream's reasons and texts.
package apiserver
