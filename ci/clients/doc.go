// Package clients holds the API server to what client-go expects of it:
// informers, leader election, the dynamic client, discovery and its cache,
// server-side apply. Its tests run against a whole control plane in this
// process, over TLS; there is no code.
package clients
