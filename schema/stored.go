package schema

// linked gives the versions of one kind pointers to the one that is kept: what
// storedAs says of the rows of the table. It is part of making the table, so
// that whatever is made from the table knows.
func linked(rows []*Resource) []*Resource {
	for _, r := range rows {
		to, ok := storedAs[r.GVK()]
		if !ok {
			continue
		}
		for _, s := range rows {
			if s.GVK() == to.WithKind(r.Kind) {
				r.Storage = s
				r.Columns, r.StoragePrefix, r.Immutable = s.Columns, s.StoragePrefix, s.Immutable
				r.Convert, s.Convert = converter(r), converter(s)
			}
		}
	}
	return rows
}
