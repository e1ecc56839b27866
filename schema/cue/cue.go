// Package cue holds the CUE definitions of every kind: the flat generated
// files. What people write is beside them: resources.cue is the table of
// resources, constraints/ what is asked of fields.
//
// It owns nothing and depends on nothing: schema/gen writes it, schema/validate
// compiles it.
package cue

import "embed"

// Definitions are the generated files, zz_*.cue, package writ. #Deployment is
// the definition of a Deployment.
//
//go:embed zz_*.cue
var Definitions embed.FS
