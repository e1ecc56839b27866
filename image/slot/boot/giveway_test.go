package boot_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/slot/boot"
)

// files are those of a list "name=root hash".
func files(t *testing.T, list string) boot.Files {
	t.Helper()
	var f boot.Files
	for word := range strings.FieldsSeq(list) {
		name, hash, _ := strings.Cut(word, "=")
		e, ok := boot.ParseEntry(name)
		e.RootHash = hash
		if ok {
			f.Entries = append(f.Entries, e)
			continue
		}
		e.Name = name
		if e.Seq, ok = boot.SeqOf(name); !ok {
			t.Fatal(name)
		}
		f.Staged = append(f.Staged, e)
	}
	boot.Order(f.Entries)
	return f
}

// a is damaged.
func TestGiveWay(t *testing.T) {
	for _, tt := range []struct{ name, files, to, steps string }{
		{"the version before", "writ_1.efi=b writ_2.efi=a", "writ_1.efi", "writ_2.efi>writ_2+0-3.efi"},
		{"the only one", "writ_2.efi=a", "", ""},
		{"one that was given up", "writ_2.efi=a writ_3+0-3.efi=b", "", ""},
		{"one on trial", "writ_2.efi=a writ_3+1-2.efi=b", "writ_3+1-2.efi", "writ_2.efi>writ_2+0-3.efi"},
		{"itself on trial", "writ_2.efi=b writ_3+1-2.efi=a", "writ_2.efi", "writ_3+1-2.efi>writ_3+0-3.efi"},
		{"itself on its last trial", "writ_2.efi=b writ_3+0-3.efi=a", "writ_2.efi", ""},
		{"with other arguments too", "writ_1.efi=b writ_2.efi=a writ_3+2-1.efi=a", "writ_1.efi", "writ_3+2-1.efi>writ_3+0-3.efi writ_2.efi>writ_2+0-3.efi"},
		{"one that is staged", "writ_2.efi=a writ_3.staged=b", "writ_3.staged", "writ_3.staged>writ_3+3.efi writ_2.efi>writ_2+0-3.efi"},
		{"itself is staged, too", "writ_2.efi=a writ_3.staged=a", "", ""},
		{"no whole UKI", "writ_1.efi= writ_2.efi=a", "", ""},
		{"half done before", "writ_1.efi=b writ_2+0-3.efi=a writ_2.efi=a", "writ_1.efi", "writ_2.efi>writ_2+0-3.efi"},
	} {
		f := files(t, tt.files)
		to := boot.Alternatives(f, "a")
		if len(to) == 0 {
			to = []boot.Entry{{}}
		}
		if to[0].Name != tt.to {
			t.Errorf("%s: to %q, want %q", tt.name, to[0].Name, tt.to)
		}
		if tt.to == "" {
			continue
		}
		var got []string
		steps := boot.GiveWay(f, "a", to[0])
		for _, s := range steps {
			got = append(got, s.From+">"+s.To)
		}
		if strings.Join(got, " ") != tt.steps {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.steps)
		}
		// Whatever is done of it, the loader has something to start; at the end it
		// is the other one.
		list := tt.files
		for i := range len(steps) + 1 {
			e, _, ok := boot.Boot(files(t, list).Entries)
			if !ok || i == len(steps) && e.RootHash != "b" {
				t.Errorf("%s: after %d steps the loader starts %v of %s", tt.name, i, e, list)
			}
			if i < len(steps) {
				list = strings.Replace(list, steps[i].From+"=", steps[i].To+"=", 1)
			}
		}
	}
	if f := files(t, "writ_1.efi=b writ_2.staged=c writ_3.efi=d"); fmt.Sprint(boot.Alternatives(f, "a")) == "" || len(boot.Alternatives(f, "a")) != 3 || boot.Alternatives(f, "a")[2].RootHash != "c" {
		t.Errorf("%v", boot.Alternatives(f, "a"))
	}
}
