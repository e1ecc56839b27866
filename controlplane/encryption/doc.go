// Package encryption keeps chosen resources encrypted in etcd, by the
// EncryptionConfiguration file of Kubernetes (apiserver.config.k8s.io/v1) and
// in its format on disk: a database moves between an upstream API server and
// ours with the same file.
//
// Providers are identity, aescbc, aesgcm, secretbox and kms (v2; v1 is refused
// as upstream does). A stored value begins with what encrypted it:
//
//	k8s:enc:aescbc:v1:<key>:     k8s:enc:aesgcm:v1:<key>:
//	k8s:enc:secretbox:v1:<key>:  k8s:enc:kms:v2:<provider>:
//
// The first provider of a resource writes, all of them read. To rotate a key:
//
//  1. Add the new key as the second of its provider, on all servers. Each takes
//     the file over within a minute; none writes with the key yet, all can read it.
//  2. Move it to the first place, on all servers. They write with it, and the
//     server that leads stores anew what lies under the old key or in plain.
//  3. When the metric writ_store_stale_values of that server is 0, remove the old
//     key.
//
// A server that has the new key in the first place before another has it at all
// writes what the other cannot read. The other then refuses those resources, is
// not ready and does not lead, until it has the key: nothing is lost.
//
// The etcd key of an object is authenticated with its value, so that nobody
// with access to the database can pass one Secret off as another. The ciphers
// are those of k8s.io/apiserver.
//
// It owns no files: it reads the configuration, and again each minute when
// asked to. It promises that a value that was tampered with, moved, or
// encrypted by a provider that is not configured is an error and never an
// object.
package encryption
