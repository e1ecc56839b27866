// Package clienttest says by tests what a client.Interface and a
// client.Backend promise. Every implementation runs the same suite: the Fake,
// the registry over a store, and the remote client over a real server. What
// holds for the Fake in a test of a controller so holds in the cluster.
//
// It owns nothing. A suite needs a server that has a namespace "default" and
// no admission of its own.
package clienttest
