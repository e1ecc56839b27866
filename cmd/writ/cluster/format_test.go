package cluster

import (
	"log/slog"
	"os"
	"strings"
	"testing"
)

// Data of a newer format is refused by name of its version; older data is ours
// from then on.
func TestFormat(t *testing.T) {
	for _, tt := range []struct{ has, refused, after string }{
		{"", "", `{"format":2,"version":"v1"}`},
		{`{"format":1}`, "", `{"format":2,"version":"v1"}`},
		{`{"format":2,"version":"v0"}`, "", `{"format":2,"version":"v1"}`},
		{`{"format":2,"version":"v1"}`, "", `{"format":2,"version":"v1"}`},
		{`{"format":3,"version":"v9"}`, "by writ v9 in format 3", `{"format":3,"version":"v9"}`},
		{`{"for`, "format.json", `{"for`},
	} {
		c := Config{DataDir: t.TempDir(), Version: "v1", Log: slog.New(slog.DiscardHandler)}
		if tt.has != "" {
			if err := os.WriteFile(c.file(formatFile), []byte(tt.has), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := c.checkFormat()
		if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: %v", tt.has, err)
		}
		if got, _ := os.ReadFile(c.file(formatFile)); strings.TrimSpace(string(got)) != tt.after {
			t.Errorf("%s: the file is %s", tt.has, got)
		}
	}
}
