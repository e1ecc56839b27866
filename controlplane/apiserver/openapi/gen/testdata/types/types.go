// Package types is input of a test.
package types

// Thing is a thing
// of two lines.
//
// It has:
// - a first point
// - a second
// and an end.
// TODO: not this.
//
// ---
// nor this
type Thing struct {
	// Items of the thing.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=port
	Items []string
}

// Color of a thing.
// +enum
type Color string

const (
	// Red is red.
	Red   Color = "Red"
	Green Color = "Green"
)
