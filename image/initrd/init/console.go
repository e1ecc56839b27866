//go:build linux

package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// say leaves a line in the kernel's log; with quiet it is not on the console.
func say(format string, args ...any) {
	if f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); err == nil {
		_, _ = fmt.Fprintf(f, "<6>writ-init: "+format+"\n", args...)
		_ = f.Close()
	}
}

// tell says a sentence to whoever stands before the machine.
func tell(format string, args ...any) {
	say(format, args...)
	if f, err := os.OpenFile("/dev/console", os.O_WRONLY|unix.O_NOCTTY, 0); err == nil {
		_, _ = fmt.Fprintf(f, "\r\n"+format+"\r\n", args...)
		_ = f.Close()
	}
}

// fail says why the node cannot start, and restarts the machine: the boot
// loader then counts, and tries the other image.
func fail(err error) {
	tell("Writ cannot start: %v. The machine restarts in %d seconds.", err, beforeBoot/time.Second)
	restart()
}

// restart restarts the machine, when what was said can have been read.
func restart() {
	time.Sleep(beforeBoot)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	os.Exit(1) // the kernel panics, and restarts by panic=
}
