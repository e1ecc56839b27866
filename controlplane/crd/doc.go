// Package crd serves custom resources in a running cluster.
//
//	definitions ──▶ names, schema, approval: decide ──▶ rows ──▶ store.Add ──▶ catalog ──▶ status
//	                                                                               │
//	     deleted: delete the instances, wait, drop the finalizer, store.Remove ◀───┘
//
// It watches CustomResourceDefinitions and, while one is being deleted, its
// instances. It owns the status of definitions, their cleanup finalizer and the
// custom part of the catalog. It promises that a definition that says
// Established is served, that all that were established before are served when
// Ready is closed, and that a change is served before its status says so.
package crd
