package network

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// victim names the directory for a process that attaches and detaches pods
// until it is killed.
const victim = "WRIT_TEST_VICTIM"

func netlinkUnmount(dir string) { unix.Unmount(dir, unix.MNT_DETACH) }

func runVictim() {
	dir := os.Getenv(victim)
	ctx := context.Background()
	n := New(Config{PodCIDR: testCIDR, StateDir: dir + "/state", NetNSDir: dir + "/netns"})
	if err := n.Setup(ctx); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		uid := fmt.Sprint("uid-", rand.IntN(20))
		var err error
		if rand.IntN(2) == 0 {
			_, err = n.Attach(ctx, Pod{UID: uid})
		} else {
			err = n.Detach(ctx, uid)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// A process killed at any point leaves nothing that the next one cannot use:
// every pod can be attached, none shares an address, no veth is orphaned.
func TestKilledAnywhere(t *testing.T) {
	dir := t.TempDir()
	setup(t, dir)
	for range 12 {
		cmd := exec.Command("/proc/self/exe", "-test.run=^$")
		cmd.Env = append(os.Environ(), victim+"="+dir)
		out := &strings.Builder{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(30+rand.IntN(60)) * time.Millisecond) // the point of death is the thing tried
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
		if out.Len() > 0 {
			t.Fatalf("victim failed before it was killed: %s", out)
		}

		n := setup(t, dir)
		seen := map[netip.Addr]bool{}
		for i := range 20 {
			a := attach(t, n, fmt.Sprint("uid-", i))
			if addr, err := podAddr(a.NetNS); err != nil || addr != a.IPs[0] || seen[addr] {
				t.Fatalf("pod %d: address %v %v, lease %v, seen %v", i, addr, err, a.IPs[0], seen[addr])
			}
			seen[a.IPs[0]] = true
		}
		for i := range 20 {
			if err := n.Detach(t.Context(), fmt.Sprint("uid-", i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			waitGone(t, vethName(fmt.Sprint("uid-", i)))
		}
	}
}
