package source

import (
	"fmt"
	"testing"
)

// TestStoresOfNewPacks: what comes and goes in packs is read, and the index of
// a large pack is read once for all that comes after it.
func TestStoresOfNewPacks(t *testing.T) {
	w := newWork(t)
	for i := range 5000 {
		w.write(fmt.Sprintf("d%02d/f%d.txt", i%50, i), fmt.Sprint(i))
	}
	bare := w.bare()
	w.git("-C", bare, "config", "receive.unpackLimit", "1")
	head := w.commit()
	w.push("HEAD:main")
	s := New(Config{Builtin: bare})
	defer s.Close()
	objs := s.repo.objects()
	large := func() *opened {
		for _, st := range objs.stores {
			if st.large {
				return st
			}
		}
		return nil
	}
	reads := func(sha, name, want string) {
		t.Helper()
		f, err := must(s.Tree(sha)).File(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := describeFile(t, f); got != "-rw-r--r-- "+f.Blob+" "+want {
			t.Errorf("%s is %s", name, got)
		}
	}
	reads(head, "d01/f1.txt", "1")
	first := large()
	if first == nil {
		t.Fatal("there is no store of the large pack")
	}
	for i := range 2 * maxStores {
		sha := w.commit("d01/f1.txt", fmt.Sprintf("new %d", i))
		w.push("HEAD:main")
		reads(sha, "d01/f1.txt", fmt.Sprintf("new %d", i))
		reads(head, "d07/f7.txt", "7")
		if len(objs.stores) > maxStores+1 {
			t.Fatalf("%d stores are open", len(objs.stores))
		}
		if i == maxStores+3 {
			w.git("-C", bare, "-c", "repack.packKeptObjects=true", "repack", "-q", "-d", "--geometric=2")
		}
		if large() != first {
			t.Fatalf("push %d: the large pack was opened again", i)
		}
		head = sha
	}
	w.git("-C", bare, "repack", "-q", "-a", "-d")
	reads(head, "d01/f1.txt", fmt.Sprintf("new %d", 2*maxStores-1))
	reads(head, "d09/f9.txt", "9")
	loose := w.git("-C", bare, "commit-tree", "-m", "loose", "-p", head, head+"^{tree}")
	if _, err := s.Commit(loose); err != nil {
		t.Error(err)
	}
	if _, err := s.Commit("0123456789012345678901234567890123456789"); err == nil {
		t.Error("a commit was read that is nowhere")
	}
	beside := s.Beside(bare)
	defer beside.Close()
	if _, err := beside.Commit(head); err != nil {
		t.Error(err)
	}
	for _, st := range beside.repo.objects().stores {
		if st.large {
			t.Error("a repository beside another one opens what that has open")
		}
	}
}
