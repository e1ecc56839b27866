package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// walker goes through the values of a file in the order of the MAC.
type walker struct {
	f        *file
	m        *metadata
	op       *opener // nil to mask
	mac      hash.Hash
	path     []string // keys above the value
	size     int      // bytes of them
	levels   []level  // maps and lists above the value
	edits    []edit
	problems []problem
	out      *Opened
}

// level is a map or a list above a value. What its entries have in common is
// decided once: a long key above a million values must not be read as often.
type level struct {
	named bool // a key from here upwards is one that the rules name
	noted bool // a comment of this level is
}

// maxPath bounds the bytes of all keys above a value: each value is bound to
// its path.
const maxPath = 4096

// open decrypts, or masks, all values of a file, and checks that it is whole.
func (f *file) open(m *metadata, op *opener) *Opened {
	w := &walker{f: f, m: m, op: op, mac: sha512.New(), out: &Opened{Encrypted: true, lines: map[int]bool{}}}
	if m.macOnlyEncrypted {
		start := sha256.Sum256([]byte(metadataKey)) // so that no other file has this MAC
		w.mac.Write(start[:])
	}
	if plain, ok := w.binary(); ok {
		return plain
	}
	for _, d := range f.docs {
		w.document(d)
	}
	if len(w.problems) == 0 && op != nil {
		w.check()
	}
	if len(w.problems) > 0 {
		return refused(f, w.problems)
	}
	w.out.Plain = apply(f.data, w.edits)
	return w.out
}

// document walks one document and takes its sops field out.
func (w *walker) document(d *node) {
	switch {
	case d.kind == scalarKind && d.null:
		return
	case d.kind != mapKind:
		w.problem(*bad(d, "the document is no map, and SOPS encrypts maps only"))
		return
	}
	for i := range d.entries {
		if e := &d.entries[i]; !e.comment && e.key == metadataKey {
			from, to, ok := w.f.fieldRange(d, i)
			if !ok {
				w.problem(*bad(e.val, "the sops field cannot be told from the rest of the document"))
				return
			}
			w.edits = append(w.edits, edit{from, to, ""})
		}
	}
	w.walkEntries(d, "", true)
}

func (w *walker) problem(p problem) {
	if len(w.problems) <= maxFindings {
		w.problems = append(w.problems, p)
	}
}

// walkEntries walks a map or a list. The comments that stand before an entry
// count for it and for what is in it.
func (w *walker) walkEntries(n *node, field string, root bool) {
	var above level
	if len(w.levels) > 0 {
		above = w.levels[len(w.levels)-1]
	}
	w.levels = append(w.levels, level{named: above.named, noted: above.noted})
	here := &w.levels[len(w.levels)-1]
	for i := range n.entries {
		e := &n.entries[i]
		switch {
		case e.comment:
			here.noted = here.noted || w.m.notes(e.text)
			continue
		case root && e.key == metadataKey:
			continue
		case n.kind == mapKind && e.keyBad:
			w.problem(*bad(e.val, "a key must be a word, and SOPS encrypts no others"))
			continue
		case w.size+len(e.key) > maxPath:
			w.problem(problem{at: e.val, rule: "TooLarge", message: fmt.Sprintf("the names of the fields above are longer than %d bytes", maxPath)})
			continue
		}
		name := fieldOf(".", n.kind, e.key, i)
		if field == "" {
			name = strings.TrimPrefix(name, ".")
		}
		if n.kind == mapKind {
			w.path, w.size = append(w.path, e.key), w.size+len(e.key)
			here.named = above.named || w.m.names(e.key)
		}
		w.walkValue(e.val, field+name)
		here = &w.levels[len(w.levels)-1] // the levels may have moved
		if n.kind == mapKind {
			w.path, w.size = w.path[:len(w.path)-1], w.size-len(e.key)
		}
		here.noted = above.noted
	}
	w.levels = w.levels[:len(w.levels)-1]
}

func (w *walker) walkValue(n *node, field string) {
	switch {
	case n.bad != "":
		p := bad(n, n.bad)
		p.field = field
		w.problem(*p)
	case n.kind != scalarKind:
		w.walkEntries(n, field, false)
	case !n.null:
		w.scalar(n, field)
	}
}

// scalar decrypts one value, or takes it as it is.
func (w *walker) scalar(n *node, field string) {
	selected := w.m.selects(w.levels[len(w.levels)-1])
	mac := n.mac
	switch _, isSealed := parseSealed(n.text); {
	case !selected && n.isStr && isSealed:
		w.problem(problem{at: n, field: field, rule: RuleHalfEncrypted,
			message: "is encrypted, and the sops field says that values at this place are not", hint: "encrypt the file again with sops"})
		return
	case !selected:
	case n.isStr && n.text == "": // SOPS leaves the empty text as it is
	case !n.isStr || !looksSealed(n.text):
		w.problem(problem{at: n, field: field, rule: RuleHalfEncrypted,
			message: "is not encrypted, and the sops field says that values at this place are",
			hint:    "change encrypted files with sops edit FILE; what was committed in plain text must be replaced by a new secret"})
		return
	default:
		v, err := w.value(n)
		if err != nil {
			w.problem(problem{at: n, field: field, rule: RuleTampered, message: "cannot be decrypted: " + err.Error(),
				hint: "change encrypted files with sops edit FILE, and do not move values in them by hand"})
			return
		}
		if v.note {
			w.drop(n, field)
			return
		}
		mac = v.mac
		w.replace(n, field, v)
	}
	if !w.m.macOnlyEncrypted || selected {
		w.mac.Write(mac)
	}
}

func (w *walker) value(n *node) (value, error) {
	if w.op == nil {
		return masked(n.text)
	}
	return w.op.open(n.text, strings.Join(w.path, ":")+":")
}

// masked is a value of the same type that means nothing. The text is a valid
// name, and valid base64.
func masked(text string) (value, error) {
	s, ok := parseSealed(text)
	if !ok {
		return value{}, errForm
	}
	switch s.typ {
	case "str", "bytes":
		return value{text: "withheld", str: true}, nil
	case "int", "float":
		return value{text: "1"}, nil
	case "bool":
		return value{text: "true"}, nil
	case "time":
		return value{text: "2000-01-01T00:00:00Z", str: true}, nil
	case "comment":
		return value{note: true}, nil
	}
	return value{}, errType
}

// replace puts a value where its encrypted form is.
func (w *walker) replace(n *node, field string, v value) {
	from, to, ok := w.f.scalarRange(n)
	if !ok {
		p := bad(n, "is written in a way that SOPS does not write, so it cannot be decrypted")
		p.field = field
		w.problem(*p)
		return
	}
	text := v.text
	if v.str {
		text = quote(v.text)
	}
	w.edits = append(w.edits, edit{from, to, text})
	w.out.lines[n.line] = true
	if len(v.text) > 2 && w.op != nil {
		w.out.values = append(w.out.values, v.text)
	}
}

// drop takes a comment out that SOPS has made an item of a list.
func (w *walker) drop(n *node, field string) {
	from, to, ok := w.f.itemRange(n)
	if !ok {
		w.problem(problem{at: n, field: field, rule: RuleUnsupported, message: "is an encrypted comment in a place where none can be",
			hint: "remove the comment with sops edit FILE"})
		return
	}
	w.edits = append(w.edits, edit{from, to, ""})
}

// check compares the MAC of the file with what was read.
func (w *walker) check() {
	at := orElse(w.m.macNode, w.m.at)
	tampered := problem{at: at, field: "sops.mac", rule: RuleTampered,
		message: "the file is not as SOPS wrote it: a value was changed, added, moved or removed by hand",
		hint:    "restore the file, or check it and encrypt it again; change encrypted files with sops edit FILE"}
	s, ok := parseSealed(w.m.mac)
	if !ok {
		w.problem(*bad(at, "sops.mac cannot be read"))
		return
	}
	want, err := w.op.raw(s, w.m.modified)
	have := strings.ToUpper(hex.EncodeToString(w.mac.Sum(nil)))
	if err != nil || !hmac.Equal(want, []byte(have)) {
		w.problem(tampered)
	}
}
