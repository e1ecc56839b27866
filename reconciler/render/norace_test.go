//go:build !race

package render

const slower = 1
