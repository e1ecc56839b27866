package registry

import "github.com/writ-os/writ/schema"

// Put stores the new state of another object with the write that admission is
// asked about, in the same transaction: the usage of a quota, say. It goes
// unseen by admission.
func (o *overlay) Put(r *schema.Resource, obj schema.Object) {
	o.put(r, schema.KeyOf(obj), obj)
}
