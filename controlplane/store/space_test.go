package store

import (
	"fmt"
	"os"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// What compaction frees is used again: the file is as large as what lives and the
// history between two compactions, however much is written. That is why nothing
// defragments it while it runs; etcd gives back more than 100 MB at a start.
func TestFreedSpaceIsUsedAgain(t *testing.T) {
	s, _ := open(t, Config{})
	const objects, turns, rounds = 100, 10, 8
	text := strings.Repeat("x", 8<<10)
	var writes []Write
	for i := range objects {
		writes = append(writes, create(configMap("default", fmt.Sprint("c-", i), text)))
	}
	commit(t, s, writes...)
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(databaseFile(s.cfg.Dir))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	var early int64
	for round := range rounds {
		for turn := range turns {
			writes = writes[:0]
			for i := range objects {
				k := key("default", fmt.Sprint("c-", i))
				writes = append(writes, Write{Resource: configMaps, Key: k, Expect: s.Get(configMaps, k).Version, Object: configMap("default", k.Name, fmt.Sprint(round, turn, text))})
			}
			commit(t, s, writes...)
		}
		if _, err := s.etcd.Compact(t.Context(), &pb.CompactionRequest{Revision: s.Version().Main() - 1, Physical: true}); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			early = size()
		}
	}
	written := int64(objects * turns * rounds * len(text))
	if last := size(); last > early+early/4 || last > written/2 {
		t.Errorf("the file grew from %d to %d MiB while %d were written", early>>20, last>>20, written>>20)
	}
}
