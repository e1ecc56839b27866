package boot_test

import (
	"strings"
	"testing"

	"github.com/writ-os/writ/image/slot/boot"
)

func TestParseEntry(t *testing.T) {
	for name, want := range map[string]boot.Entry{
		"writ_5.efi":     {Seq: 5, Good: true},
		"writ_5+3.efi":   {Seq: 5, Left: 3},
		"writ_5+2-1.efi": {Seq: 5, Left: 2, Done: 1},
		"writ_0+0-3.efi": {Left: 0, Done: 3},
	} {
		want.Name = name
		if got, ok := boot.ParseEntry(name); !ok || got != want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	for _, name := range []string{
		"", "writ_.efi", "writ_05.efi", "writ_-1.efi", "writ_5", "writ_5.conf", "writ_5+.efi", "writ_5+3-.efi", "writ_5+3-1-1.efi", "writ_5+x.efi",
		"other_5.efi", "writ_5.staged", "writ_5.tmp", "writ_5.efi.extra.d/writ.addon.efi", "writ_9223372036854775807.efi", "writ_5+99999999999.efi", "a/writ_5.efi",
	} {
		if e, ok := boot.ParseEntry(name); ok {
			t.Errorf("%s is taken for %+v", name, e)
		}
	}
}

func TestBoot(t *testing.T) {
	for _, tt := range []struct{ names, want, renamed string }{
		{"", "", ""},
		{"writ_1.efi", "writ_1.efi", "writ_1.efi"},
		{"writ_9.efi writ_10.efi", "writ_10.efi", "writ_10.efi"},
		{"writ_9.efi writ_10+3.efi", "writ_10+3.efi", "writ_10+2-1.efi"},
		{"writ_9.efi writ_10+1-2.efi", "writ_10+1-2.efi", "writ_10+0-3.efi"},
		{"writ_9.efi writ_10+0-3.efi", "writ_9.efi", "writ_9.efi"},
		{"writ_9+1.efi writ_10+0-3.efi", "writ_9+1.efi", "writ_9+0-1.efi"},
		{"writ_9+0-3.efi writ_10+0-3.efi", "writ_10+0-3.efi", "writ_10+0-4.efi"},
		{"writ_9+1-2.efi writ_9+3.efi", "writ_9+3.efi", "writ_9+2-1.efi"},
	} {
		var entries []boot.Entry
		for n := range strings.FieldsSeq(tt.names) {
			e, ok := boot.ParseEntry(n)
			if !ok {
				t.Fatal(n)
			}
			entries = append(entries, e)
		}
		e, renamed, ok := boot.Boot(entries)
		if e.Name != tt.want || renamed != tt.renamed || ok != (tt.want != "") {
			t.Errorf("%s: %s, %s, %v", tt.names, e.Name, renamed, ok)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, s := range []string{"writ_5.efi", "writ_5+3.efi", "writ_5+2-1.efi", "writ_5+0-3.efi"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		e, ok := boot.ParseEntry(name)
		if !ok {
			return
		}
		// What the loader makes of it is ours again, and of the same number.
		_, renamed, _ := boot.Boot([]boot.Entry{e})
		if again, ok := boot.ParseEntry(renamed); !ok || again.Seq != e.Seq || again.Good != e.Good {
			t.Errorf("%s became %s", name, renamed)
		}
	})
}
