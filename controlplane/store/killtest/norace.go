//go:build !race

package killtest

const slow = 1
