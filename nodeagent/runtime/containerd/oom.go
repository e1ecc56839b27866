package containerd

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lowestOOMScoreAdj returns the lowest value that processes we start may be
// given: without CAP_SYS_RESOURCE the kernel lets nobody go below where he is.
// runc would fail with an error that does not say so.
func lowestOOMScoreAdj() int {
	if hasCapability(unix.CAP_SYS_RESOURCE) {
		return -1000
	}
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return n
}

func hasCapability(c int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}
