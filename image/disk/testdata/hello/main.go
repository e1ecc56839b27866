//go:build linux

// Command hello stands in for systemd in a test: it says that it was started,
// reads every file of its root file system, and turns the machine off.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	cmdline, _ := os.ReadFile("/proc/cmdline")
	fmt.Printf("CMDLINE %s\r\n", strings.TrimSpace(string(cmdline)))
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "/" && f[2] == "erofs" {
			fmt.Printf("HELLO from pid %d, root is %s %s\r\n", os.Getpid(), f[0], f[3])
		}
	}
	err := filepath.WalkDir("/data", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(io.Discard, f)
		fmt.Printf("READ %s %d\r\n", path, n)
		return err
	})
	fmt.Printf("BYE %v\r\n", err)
	time.Sleep(200 * time.Millisecond) // until the console has it
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
