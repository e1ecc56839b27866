package settings

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// inside marks the process that has a network namespace of its own, and so
// sysctls of its own below net.
const inside = "WRIT_TEST_IN_NETNS"

func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" && os.Getuid() == 0 {
		os.Exit(reexec())
	}
	goleak.VerifyTestMain(m)
}

func reexec() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
