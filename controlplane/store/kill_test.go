package store

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// The child process of the kill test: it writes transactions until it is
// killed, and says on its output which are stored.
const childEnv = "WRIT_STORE_TEST_CHILD"

// killsFlag makes the kill tests as long as one likes.
var killsFlag = flag.Int("kills", 0, "how many times each kill test kills its child; 0 is what each does by itself")

// perTxn is how many objects one transaction of the child rewrites.
const perTxn = 60

// writerChild rewrites all its objects with a new round in every transaction:
// half of them as updates, and the others deleted in even rounds and created in
// odd ones.
func writerChild(dir string) {
	s := New(Config{Dir: dir, Tick: 10 * time.Millisecond})
	go func() {
		if err := s.Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	<-s.Ready()
	round := roundOf(s) + 1
	for ; ; round++ {
		if _, err := s.Txn(context.Background(), roundWrites(s, round)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%d %d\n", round, s.Version())
	}
}

func roundWrites(s *Store, round int) []Write {
	var writes []Write
	for i := range perTxn {
		k := key("default", fmt.Sprintf("c%02d", i))
		w := Write{Resource: configMaps, Key: k, Unconditional: true}
		if i%2 == 0 || round%2 == 1 {
			w.Object = configMap("default", k.Name, strconv.Itoa(round))
		} else if s.Get(configMaps, k) == nil {
			continue
		}
		writes = append(writes, w)
	}
	return writes
}

// roundOf is the round that the store holds, read from its first object; 0 when
// it is empty.
func roundOf(s *Store) int {
	it := s.Get(configMaps, key("default", "c00"))
	if it == nil {
		return 0
	}
	n, _ := strconv.Atoi(it.Object.(*corev1.ConfigMap).Data["v"])
	return n
}

// TestKill kills a writing process again and again, at random moments, and
// looks at what it leaves: always a whole round, never older than the last one
// that the process had seen stored, with versions that only grow.
func TestKill(t *testing.T) {
	kills := cmp.Or(*killsFlag, 110)
	dir := filepath.Join(t.TempDir(), "etcd")
	rounds := 0
	var newest schema.ResourceVersion
	for kill := range kills {
		stored, version := runAndKill(t, dir, time.Duration(rand.Int64N(int64(60*time.Millisecond))))
		s, stop := open(t, Config{Dir: dir})
		round := checkRound(t, s)
		if round < stored {
			t.Fatalf("kill %d: round %d was stored and the store has %d", kill, stored, round)
		}
		if s.Version() < version || s.Version() < newest {
			t.Fatalf("kill %d: version is %v, was %v and %v", kill, s.Version(), version, newest)
		}
		newest = s.Version()
		rounds = round
		stop()
	}
	if rounds < kills {
		t.Errorf("the children stored %d rounds in %d lives: the test kills too early", rounds, kills)
	}
}

// checkRound fails unless the store holds exactly one round.
func checkRound(t *testing.T, s *Store) int {
	t.Helper()
	round, seen := roundOf(s), 0
	for it := range s.Snapshot(configMaps).All() {
		seen++
		if v := it.Object.(*corev1.ConfigMap).Data["v"]; v != strconv.Itoa(round) {
			t.Fatalf("%v is of round %s, others of round %d: half a transaction", it.Key, v, round)
		}
	}
	want := perTxn
	if round%2 == 0 {
		want = perTxn / 2
	}
	if round == 0 {
		want = 0
	}
	if seen != want {
		t.Fatalf("round %d has %d objects, want %d", round, seen, want)
	}
	return round
}

// runAndKill starts a child, waits for its first transaction and then for a
// moment more, and kills it. It returns the last round that the child saw
// stored, and the version then.
func runAndKill(t *testing.T, dir string, after time.Duration) (round int, version schema.ResourceVersion) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break // a line that was cut off does not count
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(line, &round, (*uint64)(&version)); err != nil {
			t.Fatalf("child said %q: %v", line, err)
		}
		if n == 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // killed
	return round, version
}
