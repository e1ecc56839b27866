package page

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/schema"
)

// viewer is who looks, with what is known of what they may see. It serves one
// request, one goroutine at a time.
type viewer struct {
	name string
	may  func(verb string, r *schema.Resource, namespace, name string) bool
	// lists are the answers so far.
	lists map[access]bool
}

// access is a question that has been asked before.
type access struct {
	resource  *schema.Resource
	namespace string
}

// maxAccess bounds what a long stream remembers.
const maxAccess = 10_000

func newViewer(ctx context.Context, u user.Info, authorize func(context.Context, user.Info, string, *schema.Resource, string, string) bool) *viewer {
	return &viewer{name: u.GetName(), lists: map[access]bool{}, may: func(verb string, r *schema.Resource, namespace, name string) bool {
		return authorize(ctx, u, verb, r, namespace, name)
	}}
}

// forget has everything asked again.
func (v *viewer) forget() { clear(v.lists) }

// mayList says whether the viewer may list the objects of a namespace, or of
// all for "".
func (v *viewer) mayList(r *schema.Resource, namespace string) bool {
	if v.list(r, "") {
		return true
	}
	return r.Namespaced && namespace != "" && v.list(r, namespace)
}

func (v *viewer) list(r *schema.Resource, namespace string) bool {
	k := access{r, namespace}
	ok, known := v.lists[k]
	if !known {
		if len(v.lists) >= maxAccess {
			clear(v.lists)
		}
		ok = v.may("list", r, namespace, "")
		v.lists[k] = ok
	}
	return ok
}

// mayGet says whether the viewer may read one object.
func (v *viewer) mayGet(r *schema.Resource, key schema.Key) bool {
	return v.may("get", r, key.Namespace, key.Name)
}
