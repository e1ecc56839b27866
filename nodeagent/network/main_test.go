package network

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
)

// inside marks the process that runs in namespaces of its own.
const inside = "WRIT_TEST_IN_NETNS"

// TestMain runs the tests in a network and a mount namespace of their own, so
// that nothing of the machine's network is touched.
func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(reexec())
	}
	if os.Getenv(victim) != "" {
		runVictim()
	}
	goleak.VerifyTestMain(m)
}

func reexec() int {
	if os.Getuid() != 0 {
		fmt.Println("skipped: network tests need root")
		return 0
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET,
		// With Unshareflags of a mount namespace the new one is made private.
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// in runs fn on a thread that is in the namespace, which ends afterwards.
func in(t testing.TB, path string, fn func() error) error {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	return onOwnThread(func() error {
		if err := netns.Set(ns); err != nil {
			return err
		}
		return fn()
	})
}
