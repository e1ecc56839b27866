package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAddingAKind: the worked example of CONTRIBUTING.md is true. Every file of
// its numbered list exists, and those of the kind itself name it.
func TestAddingAKind(t *testing.T) {
	root := filepath.Join("..", "..")
	data, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "## Adding a kind")
	section, _, _ = strings.Cut(section, "\n## ")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no section Adding a kind")
	}
	files := 0
	for _, line := range strings.Split(section, "\n") {
		m := regexp.MustCompile("^[0-9]+\\. `([^`]+)`").FindStringSubmatch(line)
		if m == nil {
			continue
		}
		files++
		text, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if s := strings.ToLower(string(text)); !strings.Contains(s, "priorityclass") {
			t.Errorf("%s does not name PriorityClass", m[1])
		}
	}
	if files < 8 {
		t.Errorf("%d files in the list", files)
	}
}
