// Package custom is what a CustomResourceDefinition says, as code: the rows of
// the catalog that it adds, pruning, defaults, validation, merge types, printer
// columns, conversion, and its OpenAPI documents.
//
//	definition ──▶ Resources ──▶ one stored row, a row for each served version
//	                                   │
//	                 schema.Custom ◀───┘  schemas and CEL programs are made when
//	                                      first asked for, and dropped when idle
//
// It watches nothing, owns nothing and does no I/O: a webhook that converts is a
// function of the caller. What upstream's leaf packages know (structural
// schemas, pruning, defaulting, CEL) is asked of them, so that texts and costs
// are upstream's. A definition that nobody uses costs no more than the object
// itself, which the rows share with whoever passed it in and nobody may change.
package custom
