package sandbox

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this very binary, whatever has become of its path. A child can run it
// whose user could not walk to it.
const self = "/proc/self/exe"

// guestUser is the user of children, and their group: it is in no passwd, below
// the users of containers, and above those that programs give out.
const guestUser = 389_471

// apart are the namespaces of a child.
const apart = unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// attempts are the ways to start a child, the best one first: which of them the
// kernel allows depends on where the server runs.
func attempts() []*syscall.SysProcAttr {
	plain := func() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true} }
	if os.Geteuid() != 0 {
		return []*syscall.SysProcAttr{plain()}
	}
	both, user, spaces := plain(), plain(), plain()
	both.Cloneflags, both.Credential = apart, &syscall.Credential{Uid: guestUser, Gid: guestUser}
	user.Credential = both.Credential
	spaces.Cloneflags = apart
	return []*syscall.SysProcAttr{both, user, spaces, plain()}
}

// refused says whether a start has failed because something is not allowed
// here.
func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES)
}

// widen makes a pipe as large as it may be: an answer is read in fewer turns.
func widen(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) }) // as it is, it works
	}
}

// peak is how many bytes of memory a child had that has ended.
func (c *child) peak() int64 {
	if c.cmd.ProcessState == nil {
		return 0
	}
	if u, ok := c.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
