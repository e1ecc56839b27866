// Package writ judges the kinds of writ.dev: each counts the changes of its spec,
// and its definition in CUE says all that is valid. It watches nothing and owns nothing.
package writ

import (
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Cluster is the judge of its kind.
var Cluster = &kind.Kind{
	Resource:   schema.ResourceFor[*v1alpha1.Cluster](),
	Generation: true,
}

// Repository is the judge of its kind.
var Repository = &kind.Kind{
	Resource:   schema.ResourceFor[*v1alpha1.Repository](),
	Generation: true,
}

// Commit is the judge of its kind.
var Commit = &kind.Kind{
	Resource:   schema.ResourceFor[*v1alpha1.Commit](),
	Generation: true,
}

// NodePool is the judge of its kind.
var NodePool = &kind.Kind{
	Resource:   schema.ResourceFor[*v1alpha1.NodePool](),
	Generation: true,
}

// NodeImage is the judge of its kind.
var NodeImage = &kind.Kind{
	Resource:   schema.ResourceFor[*v1alpha1.NodeImage](),
	Generation: true,
}
