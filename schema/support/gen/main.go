// Command gen writes docs/fields.md from the table of what is honoured. Run it
// with `go generate ./schema/support`; a test there holds the file against the
// table.
package main

import (
	"fmt"
	"os"

	"github.com/writ-os/writ/schema/support"
)

func main() {
	if err := os.WriteFile("../../docs/fields.md", support.Document(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
