package config

import (
	"fmt"
	"strings"
)

// didYouMean is a hint with the word that was probably meant; "" if none is
// near.
func didYouMean(got string, words []string) string {
	best, near := "", max(1, min(3, len(got)/3))+1
	for _, word := range words {
		if d := distance(strings.ToLower(got), strings.ToLower(word)); d < near {
			best, near = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// distance counts the letters to insert, delete or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
