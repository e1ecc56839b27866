package report

import (
	"fmt"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// FindingText is a finding in one line: "file:line:col: message (hint)".
func FindingText(f v1alpha1.Finding) string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		b.WriteString(": ")
	}
	if f.Field != "" && !strings.Contains(f.Message, f.Field) {
		b.WriteString(f.Field + ": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}
