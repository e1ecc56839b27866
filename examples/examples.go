// Package examples holds repositories that a user can push as they are. The
// first cluster of `writ up` is seeded with one of them; every one is run in CI.
package examples

import "embed"

// FS holds the example repositories, one folder each.
//
//go:embed guestbook shop
var FS embed.FS
