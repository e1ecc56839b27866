package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestManual: every command that --help shows has a page with its flags.
func TestManual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	cmd := root()
	n, err := writeManual(cmd, dir)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.IsAvailableCommand() && c != cmd || c.IsAdditionalHelpTopicCommand() {
			return
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			return
		}
		pages++
		if c.Flags().Lookup("output") != nil && !strings.Contains(string(page), `\-\-output`) && !strings.Contains(string(page), "--output") {
			t.Errorf("%s does not tell of --output", name)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cmd)
	if pages != n || n < 35 {
		t.Errorf("%d pages for %d commands", n, pages)
	}
}
