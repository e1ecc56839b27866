package render

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"cuelang.org/go/cue/token"
)

// What goes between the server and its child are nodes with their places. They
// are many and small, so they are written by hand: a kind, a place as the
// number of its file and an offset, a text or what is below.

// nodes are values as they are sent.
type nodes struct {
	Files []wireFile
	Data  []byte
}

// wireFile is what a place needs of its file: not the content, which may be
// secret or large, but where its lines begin.
type wireFile struct {
	Name  string
	Size  int
	Lines []byte // how much each is behind the one before
}

// maxLines bounds the lines of all files of an answer.
const maxLines = 8 << 20

// packLines writes where the lines of a file begin.
func packLines(lines []int) []byte {
	out, last := make([]byte, 0, len(lines)), 0
	for _, at := range lines {
		out, last = binary.AppendUvarint(out, uint64(at-last)), at //nolint:gosec // they grow
	}
	return out
}

// unpackLines reads them, n at most.
func unpackLines(data []byte, n int) ([]int, bool) {
	var out []int
	for last := 0; len(data) > 0; n-- {
		v, size := binary.Uvarint(data)
		if size <= 0 || v > 1<<40 || n == 0 {
			return nil, false
		}
		data, last = data[size:], last+int(v)
		out = append(out, last)
	}
	return out, true
}

// missingNode stands for a node that is nil.
const missingNode = 0xff

// nodeWriter writes nodes one after the other.
type nodeWriter struct {
	nodes
	known map[*token.File]int // number from 1
}

func (w *nodeWriter) uint(n int) { w.Data = binary.AppendUvarint(w.Data, uint64(max(n, 0))) }

func (w *nodeWriter) text(s string) {
	w.uint(len(s))
	w.Data = append(w.Data, s...)
}

func (w *nodeWriter) pos(p token.Pos) {
	if !p.HasAbsPos() {
		w.uint(0)
		return
	}
	w.uint(w.file(p.File()))
	w.uint(p.Offset()<<3 | int(p.RelPos())&7)
}

// file is the number of a file. Templates are read once for each text that
// they make, and sent once.
func (w *nodeWriter) file(f *token.File) int {
	if n := w.known[f]; n > 0 {
		return n
	}
	lines := packLines(f.Lines())
	n := 1 + slices.IndexFunc(w.Files, func(g wireFile) bool {
		return g.Name == f.Name() && g.Size == f.Size() && bytes.Equal(g.Lines, lines)
	})
	if n == 0 {
		w.Files = append(w.Files, wireFile{f.Name(), f.Size(), lines})
		n = len(w.Files)
	}
	if w.known == nil {
		w.known = map[*token.File]int{}
	}
	w.known[f] = n
	return n
}

func (w *nodeWriter) node(n *node) {
	if n == nil {
		w.Data = append(w.Data, missingNode)
		return
	}
	w.Data = append(w.Data, byte(n.kind)|byte(n.style)<<4)
	w.pos(n.pos)
	switch n.kind {
	case mapNode:
		w.uint(len(n.fields))
		for i := range n.fields {
			w.text(n.fields[i].key)
			w.pos(n.fields[i].pos)
			w.node(n.fields[i].val)
		}
	case listNode:
		w.uint(len(n.items))
		for _, item := range n.items {
			w.node(item)
		}
	default:
		w.text(n.text)
	}
}

var errWire = errors.New("what the child process sent is no node")

// nodeReader reads what a nodeWriter wrote. The child has run what others
// wrote: nothing that it sends costs more than its length.
type nodeReader struct {
	files []*token.File
	data  []byte
	left  int // values that it may still have
	err   error
}

func newNodeReader(n nodes, values int) *nodeReader {
	r := &nodeReader{data: n.Data, left: values}
	left := maxLines
	for _, f := range n.Files {
		file := token.NewFile(f.Name, 0, max(f.Size, 0))
		lines, ok := unpackLines(f.Lines, left)
		if left -= len(lines); !ok || !file.SetLines(lines) {
			r.err = errWire
		}
		r.files = append(r.files, file)
	}
	return r
}

func (r *nodeReader) fail() { r.data, r.err = nil, errWire }

// uint reads a number; the bound keeps it an int.
func (r *nodeReader) uint() int {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > 1<<40 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return int(v)
}

// count reads a number of values.
func (r *nodeReader) count() int {
	n := r.uint()
	if n > len(r.data) || n > r.left {
		r.fail()
		return 0
	}
	r.left -= n
	return n
}

func (r *nodeReader) text() string {
	n := r.uint()
	if n > len(r.data) {
		r.fail()
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *nodeReader) pos() token.Pos {
	n := r.uint()
	if n == 0 {
		return token.NoPos
	}
	at := r.uint()
	if n > len(r.files) {
		r.fail()
		return token.NoPos
	}
	return r.files[n-1].Pos(at>>3, token.RelPos(at&7))
}

// node reads one; nil at a nil, and where err says what is wrong.
func (r *nodeReader) node(depth int) *node {
	if r.err != nil || len(r.data) == 0 || depth > 4*maxDepth {
		r.fail()
		return nil
	}
	head := r.data[0]
	if r.data = r.data[1:]; head == missingNode {
		return nil
	}
	n := &node{kind: nodeKind(head & 15), style: nodeStyle(head >> 4), pos: r.pos()}
	switch n.kind {
	case mapNode:
		n.fields = make([]field, r.count())
		for i := range n.fields {
			n.fields[i] = field{r.text(), r.pos(), r.child(depth)}
		}
	case listNode:
		n.items = make([]*node, r.count())
		for i := range n.items {
			n.items[i] = r.child(depth)
		}
	default:
		n.text = r.text()
	}
	return n
}

// child reads a node that must be there.
func (r *nodeReader) child(depth int) *node {
	n := r.node(depth + 1)
	if n == nil {
		r.fail()
		return &node{}
	}
	return n
}
