package secret

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// edit replaces the bytes from start to end of a file. The line breaks among
// them stay, after the new text.
type edit struct {
	start, end int
	text       string
}

// apply returns the file with all edits made.
func apply(data []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	out := make([]byte, 0, len(data))
	at := 0
	for _, e := range edits {
		out = append(out, data[at:e.start]...)
		out = append(out, e.text...)
		for range bytes.Count(data[e.start:e.end], []byte("\n")) {
			out = append(out, '\n')
		}
		at = e.end
	}
	return append(out, data[at:]...)
}

// scalarWindow is how far an encrypted value may be from where its scalar
// begins: after a quote, or on the line below the sign of a block.
const scalarWindow = 256

var blockSign = regexp.MustCompile(`^[|>][-+0-9]*[ \t]*(#[^\n]*)?\r?\n[ \t]*$`)

// scalarRange finds the bytes of an encrypted scalar. It is written as a plain
// word, in quotes, or as a block; in all of them the value stands in one piece.
func (f *file) scalarRange(n *node) (start, end int, ok bool) {
	if f.json {
		return n.start, n.end, true
	}
	text := strings.TrimRight(n.text, "\n")
	rest := f.data[n.start:min(len(f.data), n.start+len(text)+scalarWindow)]
	i := bytes.Index(rest, []byte(text))
	if i < 0 {
		return 0, 0, false
	}
	head := string(rest[:i])
	end = n.start + i + len(text)
	switch {
	case head == "":
		return n.start, end, true
	case head == `"` || head == `'`:
		return n.start, end + 1, end < len(f.data) && f.data[end] == head[0]
	}
	return n.start, end, blockSign.MatchString(head)
}

// itemRange finds the bytes of an item of a YAML list that has a line of its
// own, with its dash.
func (f *file) itemRange(n *node) (start, end int, ok bool) {
	start, end, ok = f.scalarRange(n)
	line, _ := f.place(n.start)
	begin := f.lines[line-1]
	return begin, end, ok && !f.json && start >= begin && string(bytes.TrimSpace(f.data[begin:start])) == "-"
}

// fieldRange finds the bytes of field i of a document and all that belongs to
// it.
func (f *file) fieldRange(doc *node, i int) (start, end int, ok bool) {
	e := &doc.entries[i]
	if f.json {
		start, end = e.keyStart, e.val.end
		switch {
		case i > 0:
			start = doc.entries[i-1].val.end
		case len(doc.entries) > 1:
			end = doc.entries[1].keyStart
		}
		return start, end, true
	}
	start = e.keyStart
	if doc.start >= len(f.data) || f.data[doc.start] == '{' || !bytes.HasPrefix(bytes.TrimLeft(f.data[start:], `"'`), []byte(metadataKey)) {
		return 0, 0, false
	}
	for _, next := range doc.entries[i+1:] {
		if !next.comment {
			return start, next.keyStart, next.keyStart > start
		}
	}
	line, _ := f.place(start)
	for ; line < len(f.lines); line++ { // from the line after the key
		if at := f.lines[line]; documentEnd(f.data[at:]) {
			return start, at, true
		}
	}
	return start, len(f.data), true
}

// documentEnd says whether a line ends a YAML document.
func documentEnd(rest []byte) bool {
	for _, sign := range []string{"---", "..."} {
		if after, ok := bytes.CutPrefix(rest, []byte(sign)); ok && (len(after) == 0 || strings.IndexByte(" \t\r\n", after[0]) >= 0) {
			return true
		}
	}
	return false
}

// quote writes a text so that YAML and JSON both read it, on one line.
func quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r >= 0xd800 && r <= 0xdfff, r == 0xfeff, r == 0xfffe, r == 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
