package store

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
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

// A busy store does not keep history for as long as a quiet one: it is dropped
// once there is more of it than anybody needs, and than there are objects.
func TestMuchHistoryIsDroppedSoon(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 11,000 times")
	}
	s, _ := open(t, Config{CompactEvery: time.Hour}) // the loop looks every twelve minutes: here it is asked
	var writers errgroup.Group
	for w := range 16 {
		writers.Go(func() error {
			name := fmt.Sprint("c-", w)
			last := create(configMap("default", name, ""))
			for i := range historyMost/16 + 100 {
				items, err := s.Txn(t.Context(), []Write{last})
				if err != nil {
					return err
				}
				last = Write{Resource: configMaps, Key: items[0].Key, Expect: items[0].Version, Object: configMap("default", name, fmt.Sprint(i))}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	if s.tooMuchHistory(s.etcd.KV().FirstRev() + historyMost) {
		t.Error("little history is too much")
	}
	if mark := s.Version().Main(); !s.tooMuchHistory(mark) {
		t.Errorf("%d revisions are not too much history for 16 objects", mark)
	}
}
