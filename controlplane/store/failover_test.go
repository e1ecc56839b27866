package store

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-os/writ/controlplane/store/killtest"
)

// failoverChild is one member that writes every few milliseconds, whatever
// becomes of the writes before, and says which are stored, and when it leads.
func failoverChild(m *killtest.Mortal) {
	text, err := os.ReadFile(filepath.Join(m.Dir, "member.json"))
	if err != nil {
		killtest.Fail(err)
	}
	var file memberFile
	if err := json.Unmarshal(text, &file); err != nil {
		killtest.Fail(err)
	}
	file.Members.dialFrom = file.DialFrom
	tick, _ := time.ParseDuration(os.Getenv("WRIT_STORE_TICK")) //nolint:errcheck // the default
	s := New(Config{Dir: filepath.Join(m.Dir, "etcd"), Tick: tick, Members: &file.Members, Log: quiet(file.Members.Name)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		killtest.Fail(err)
	}
	fmt.Printf("ready %s\n", file.Members.Name)
	go func() {
		_ = s.WhileLeading(ctx, func(ctx context.Context) error {
			fmt.Printf("leads %s\n", file.Members.Name)
			<-ctx.Done()
			return nil
		})
	}()
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("%s-%d", file.Members.Name, i%500)
			go func() {
				if _, err := s.Txn(ctx, []Write{{Resource: configMaps, Key: key("default", name), Object: configMap("default", name, "x"), Unconditional: true}}); err == nil {
					fmt.Printf("ack %d\n", time.Now().UnixNano())
				}
			}()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	cancel()
	if err := <-ended; err != nil {
		killtest.Fail(err)
	}
}

// TestKillLeader measures for how long nobody can write when the leader of three
// is killed. WRIT_STORE_TICK is a tick other than the default.
func TestKillLeader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	net := newNetwork(t, 3)
	initial, dirs := map[string]string{}, []string{}
	for i := range 3 {
		initial[net.member(i).Name] = net.member(i).URL
	}
	for i := range 3 {
		file := memberFile{Members: *net.member(i), DialFrom: net.member(i).dialFrom}
		file.Members.Initial = initial
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, t.TempDir())
		if err := os.WriteFile(filepath.Join(dirs[i], "member.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var acks []int64
	leads, ready := "", 0
	var ears sync.WaitGroup
	ears.Go(func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			verb, rest, _ := strings.Cut(lines.Text(), " ")
			mu.Lock()
			switch verb {
			case "leads":
				leads = rest
			case "ready":
				ready++
			case "ack":
				n, _ := strconv.ParseInt(rest, 10, 64) //nolint:errcheck // 0 is no time
				acks = append(acks, n)
			}
			mu.Unlock()
		}
	})
	alive := make([]*killtest.Living, 3)
	start := func(i int) {
		alive[i] = killtest.Point{Steps: killtest.Never}.Start(t, "failover", dirs[i], w)
	}
	until := func(what string, f func() bool) {
		t.Helper()
		eventually(t, time.Minute, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !f() {
				return errors.New(what)
			}
			return nil
		})
	}
	for i := range 3 {
		start(i)
	}
	until("not all are ready", func() bool { return ready == 3 })
	var gaps []time.Duration
	killtest.Rounds(t, killtest.Config{Rounds: 4, Steps: 1, Delay: 200 * time.Millisecond}, func(p killtest.Point) {
		until("nobody leads", func() bool { return leads != "" })
		time.Sleep(300*time.Millisecond + p.Delay)
		mu.Lock()
		i := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return net.member(i).Name == leads })
		leads, ready = "", 0
		mu.Unlock()
		killed := time.Now().UnixNano()
		alive[i].Kill()
		until("nobody writes", func() bool {
			return len(acks) > 0 && slices.Max(acks) > killed+int64(300*time.Millisecond)
		})
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		slices.Sort(acks)
		worst, last := int64(0), killed
		for _, at := range acks {
			if at > killed {
				worst, last = max(worst, at-last), at
			}
		}
		acks = acks[:0]
		mu.Unlock()
		gaps = append(gaps, time.Duration(worst).Round(time.Millisecond))
		start(i)
		until("who was killed is not ready", func() bool { return ready == 1 })
	})
	if t.Failed() {
		return
	}
	slices.Sort(gaps)
	t.Logf("tick %s: nobody wrote for %v in the median, %v at worst: %v", cmp.Or(os.Getenv("WRIT_STORE_TICK"), "default"), gaps[len(gaps)/2], gaps[len(gaps)-1], gaps)
	if gaps[len(gaps)-1] > 20*time.Second {
		t.Error("that is far more than two elections")
	}
	for _, l := range alive {
		if _, err := io.WriteString(l.In, "\n"); err != nil {
			t.Error(err)
		}
	}
	for _, l := range alive {
		l.Kill()
	}
	w.Close()
	ears.Wait()
	r.Close()
}
