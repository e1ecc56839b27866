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
// The first provider of a resource writes, all of them read. To rotate a key,
// add the new one first: what the old one wrote is reported as stale, is
// encrypted anew at its next write, and Stale lists it for those who want to
// rewrite it now and then remove the old key.
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
