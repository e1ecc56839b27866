package page

import (
	"fmt"
	"strings"
)

// card is a box in a tree of objects.
type card struct {
	ID      string // for the browser to find it again
	Icon    string
	Short   string // the kind, in a word
	Kind    string
	Title   string
	Full    string // the title where it was shortened
	Sub     string // what there is to say
	Badge   string
	State   string
	Health  string
	Href    string
	Current bool // the object of the page
	Squares []square
	kids    []*card
}

// The sizes of a tree, in pixels.
const (
	cardW, cardH = 250, 56
	gapX, gapY   = 38, 12
	margin       = 6
	// maxTitle is how many letters of a name a card has room for.
	maxTitle = 23
)

// placed is a card with its place.
type placed struct {
	*card
	X, Y int
}

// edge is a line from a card to one of its children.
type edge struct {
	ID, D, State string
}

// graph is a tree on a plane, drawn from left to right.
type graph struct {
	W, H  int
	Cards []placed
	Edges []edge
}

// layout places trees, one below the other: each level is a column, each leaf
// has a row, and what has children is level with the middle of them. Nothing
// ever overlaps.
func layout(roots ...*card) graph {
	l := layouter{}
	for _, root := range roots {
		l.place(root, 0)
	}
	g := l.graph
	for i := range g.Cards {
		g.W, g.H = max(g.W, g.Cards[i].X+cardW+margin), max(g.H, g.Cards[i].Y+cardH+margin)
	}
	return g
}

type layouter struct {
	graph
	row int // the next free one
}

// place returns where the card is. A card is listed before its children, so
// that the keyboard walks the tree as it is read.
func (l *layouter) place(c *card, depth int) int {
	at := len(l.Cards)
	l.Cards = append(l.Cards, placed{card: c, X: margin + depth*(cardW+gapX)})
	var ys []int
	for _, k := range c.kids {
		ys = append(ys, l.place(k, depth+1))
	}
	y := margin + l.row*(cardH+gapY)
	if len(ys) == 0 {
		l.row++
	} else {
		y = (ys[0] + ys[len(ys)-1]) / 2
	}
	l.Cards[at].Y = y
	for i, k := range c.kids {
		l.Edges = append(l.Edges, edge{ID: "e-" + k.ID, D: bend(l.Cards[at].X+cardW, y+cardH/2, l.Cards[at].X+cardW+gapX, ys[i]+cardH/2), State: k.State})
	}
	return y
}

// bend is the path of a line that leaves to the right and arrives from the
// left, with round corners.
func bend(x1, y1, x2, y2 int) string {
	if y1 == y2 {
		return fmt.Sprintf("M%d %dH%d", x1, y1, x2)
	}
	mid, r, down := x1+gapX/2, min(10, abs(y2-y1)/2), 1
	if y2 < y1 {
		down = -1
	}
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %dH%d", x1, y1, mid-r)
	fmt.Fprintf(&b, "Q%d %d %d %d", mid, y1, mid, y1+down*r)
	fmt.Fprintf(&b, "V%d", y2-down*r)
	fmt.Fprintf(&b, "Q%d %d %d %d", mid, y2, mid+r, y2)
	fmt.Fprintf(&b, "H%d", x2)
	return b.String()
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// leaves counts the rows that trees take.
func leaves(trees ...*card) int {
	n := 0
	for _, c := range trees {
		n += max(leaves(c.kids...), 1)
	}
	return n
}

// worst is the state of the card itself and of all below it that asks for
// attention first.
func worst(states ...string) string {
	for _, s := range []string{stateBad, stateWarn, stateBusy, stateWait, stateOK} {
		for _, have := range states {
			if have == s {
				return s
			}
		}
	}
	return stateIdle
}
