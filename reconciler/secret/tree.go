package secret

// kind is what a node of a file is.
type kind int

const (
	scalarKind kind = iota
	mapKind
	listKind
)

// node is a value of a YAML or JSON file.
type node struct {
	kind    kind
	entries []entry // of a map or a list, in the order of the file
	line    int     // from 1
	column  int     // in bytes, from 1
	// start and end are the bytes of the file that hold a scalar, with its
	// quotes, or a JSON value.
	start, end int

	// Of scalars only.
	text  string // what a string says
	isStr bool
	null  bool
	mac   []byte // what the MAC covers: the value as SOPS writes it
	bad   string // why SOPS would not accept the value
}

// entry is a key and a value of a map, an item of a list, or a comment, which
// SOPS sees as an entry too.
type entry struct {
	comment  bool
	text     string // of a comment
	key      string
	keyStart int // offset in the file
	keyBad   bool
	val      *node
}

func (n *node) get(key string) *node {
	if n == nil || n.kind != mapKind {
		return nil
	}
	for i := range n.entries {
		if !n.entries[i].comment && n.entries[i].key == key {
			return n.entries[i].val
		}
	}
	return nil
}

// str is the text of a string scalar; "" for anything else.
func (n *node) str(key string) string {
	if v := n.get(key); v != nil && v.kind == scalarKind && v.isStr {
		return v.text
	}
	return ""
}

// file is a parsed file: its documents, and where its lines begin.
type file struct {
	path  string
	data  []byte
	lines []int // offsets of the lines
	yaml  []int // offsets of the lines as YAML counts them
	json  bool
	deep  bool // nested too deep to be read
	docs  []*node
}

func newFile(path string, data []byte) *file {
	f := &file{path: path, data: data, lines: []int{0}}
	for i, c := range data {
		if c == '\n' {
			f.lines = append(f.lines, i+1)
		}
	}
	return f
}

// place returns line and column of an offset, both from 1.
func (f *file) place(offset int) (line, column int) {
	lo, hi := 0, len(f.lines)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; f.lines[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + 1, offset - f.lines[lo] + 1
}
