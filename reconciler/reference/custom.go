package reference

import (
	"strings"

	"github.com/writ-os/writ/reconciler/render"
)

const (
	maxMakes = 32 // names that are remembered of one custom resource
	maxDepth = 12
)

// custom reads a custom resource. What an operator makes of it cannot be known;
// the objects that it makes are nearly always named in it, or named after it.
func (r *reader) custom(v render.Value) {
	r.f.Operated = true
	r.names(v.Get("spec"), "", 0)
}

// names gathers the names of objects that a custom resource may have made:
// spec.secretName of a Certificate, spec.target.name of an ExternalSecret.
func (r *reader) names(v render.Value, key string, depth int) {
	if depth > maxDepth || len(r.f.Makes) >= maxMakes {
		return
	}
	if text := v.Text(); text != "" && (key == "name" || strings.HasSuffix(key, "Name") || strings.HasSuffix(key, "Ref")) {
		r.f.Makes = append(r.f.Makes, text)
	}
	for key, part := range v.Fields() {
		r.names(part, key, depth+1)
	}
	for _, part := range v.Items() {
		r.names(part, key, depth+1)
	}
}
