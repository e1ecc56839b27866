package network

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, dir, cidr string) *leases {
	t.Helper()
	ls, err := openLeases(dir, netip.MustParsePrefix(cidr), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

func TestLeasesGoRoundAndRunOut(t *testing.T) {
	ls := open(t, t.TempDir(), "10.1.2.0/29") // .2 to .6 for pods
	for i := range 5 {
		l, err := ls.take(Pod{UID: fmt.Sprint(i)})
		if want := netip.AddrFrom4([4]byte{10, 1, 2, byte(2 + i)}); err != nil || l.IP != want {
			t.Fatalf("lease %d: %v, %v; want %v", i, l.IP, err, want)
		}
	}
	if l, err := ls.take(Pod{UID: "more"}); err == nil {
		t.Fatalf("a full range gave %v", l.IP)
	}
	for _, uid := range []string{"1", "3"} {
		if err := ls.release(uid); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"10.1.2.3", "10.1.2.5"} {
		if l, err := ls.take(Pod{UID: "new" + want}); err != nil || l.IP.String() != want {
			t.Fatalf("got %v, %v; want %s", l.IP, err, want)
		}
	}
}

func TestFreedAddressRests(t *testing.T) {
	ls := open(t, t.TempDir(), "10.1.2.0/24")
	a, _ := ls.take(Pod{UID: "a"})
	ls.release("a")
	if b, _ := ls.take(Pod{UID: "b"}); b.IP == a.IP {
		t.Errorf("%s was given again at once", b.IP)
	}
}

func TestOpenLeasesDropsWhatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"a.json":     `{"uid":"a","ip":"10.1.2.9"}`,
		"b.json":     `{"uid":"b","ip":"10.1.2.9"}`, // a has it
		"c.json":     `{"uid":"c","ip":"10.9.9.9"}`, // another range
		"d.json":     `{"uid":"d","i`,               // torn
		"e.json":     `{}`,
		"f.json.tmp": `{"uid":"f","ip":"10.1.2.4"}`,
		"g.json":     `{"uid":"g","ip":"10.1.2.1"}`, // the gateway
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ls := open(t, dir, "10.1.2.0/24")
	if got := ls.all(); len(got) != 1 || got[0].UID != "a" {
		t.Errorf("leases %v, want only that of a", got)
	}
	files, _ := os.ReadDir(dir)
	if len(files) != 1 {
		t.Errorf("%d files left, want 1", len(files))
	}
}
