package secret

// binary opens a file that SOPS has encrypted as one value: {"data": …,
// "sops": …}. A manifest has a kind beside it.
func (w *walker) binary() (*Opened, bool) {
	if !w.f.json || len(w.f.docs[0].entries) != 2 {
		return nil, false
	}
	n := w.f.docs[0].get("data")
	if n == nil || n.kind != scalarKind || !looksSealed(n.text) {
		return nil, false
	}
	if w.op == nil {
		return &Opened{Encrypted: true, Opaque: true}, true
	}
	v, err := w.op.open(n.text, "data:")
	if err != nil {
		return refused(w.f, []problem{{at: n, field: "data", rule: RuleTampered, message: "cannot be decrypted: " + err.Error(), hint: "encrypt the file again"}}), true
	}
	w.mac.Write(v.mac)
	if w.check(); len(w.problems) > 0 {
		return refused(w.f, w.problems), true
	}
	return &Opened{Encrypted: true, whole: true, Plain: []byte(v.text)}, true
}
