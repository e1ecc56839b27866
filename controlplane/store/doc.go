// Package store keeps revisioned objects: etcd on disk, and one copy of every
// object in memory from which all readers of the process are served.
//
//	Txn ──> etcd (a member in this process, fsync always on) <── other members
//	             │ one watch over /registry/
//	             ▼
//	          apply ──> immutable state ──> Get, Snapshot, View
//	             └────> one log of events per resource ──> Watch
//
// etcd is called directly. Alone it has no listener; the members of several
// servers speak to each other over mutual TLS, and each has its own copy. Keys
// and values are those of a Kubernetes API server, so that its tools can read
// the data. All objects of one Txn share an etcd revision; a resource version is
// that revision and the index in the transaction, and is the same again after a
// restart.
//
// It promises:
//   - A Txn is stored whole or not at all, whatever happens to the process.
//   - A reader sees all of a Txn or nothing of it, across resources.
//   - When Txn returns, every later read of this process sees it, and every read
//     of another after Current.
//   - Events of a resource come in the order of their versions, none lost and
//     none twice, or the watch ends with ErrExpired.
//   - The state is published before its events are.
//   - Nobody waits for a slow watcher.
//   - All of this holds on each of several members, at the same versions; one that
//     cannot reach the majority writes nothing and says so.
//   - Of several members at most one leads.
//   - Keys and values it does not understand stay as they are.
//   - A value that cannot be read is never taken for deleted: its resource is
//     refused with an *UnreadableError, and the server does not lead.
package store
