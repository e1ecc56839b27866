package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxMemory is how many bytes of data a child may have; the kernel sees to it.
// The collector is told to keep below a bound before that, else garbage would
// count as much as what is needed.
const (
	maxMemory  = 1 << 30
	goalMemory = maxMemory / 8 * 7
	maxStack   = 256 << 20
)

// maxCPU is how many seconds of processors a child may use. It is asked to end
// long before.
const maxCPU = 1200

// confine gives up what this process could do, for all of its threads. The
// error is that of a bound which every kernel has.
func confine(skip []string) (*Layers, error) {
	l := &Layers{User: os.Geteuid() != 0 && os.Geteuid() == guestUser, Namespaces: os.Getpid() == 1, Missing: map[string]string{}}
	if !l.User {
		l.Missing[layerUser] = "the server may not give it another"
	}
	if !l.Namespaces {
		l.Missing[layerNamespaces] = "the server may not make them"
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // the first to go; elsewhere the bound of memory is enough
	if err := closeInherited(); err != nil {
		return nil, err
	}
	if err := limit(l.User); err != nil {
		return nil, err
	}
	if err := dropCapabilities(); err != nil && !l.User {
		l.Missing[layerUser] += ", and it keeps its capabilities: " + err.Error()
	}
	debug.SetMaxStack(maxStack)
	for _, layer := range []struct {
		name  string
		enter func() error
	}{{layerLandlock, l.landlock}, {layerSeccomp, l.seccomp}} {
		if slices.Contains(skip, layer.name) {
			l.Missing[layer.name] = "left out"
		} else if err := layer.enter(); err != nil {
			l.Missing[layer.name] = err.Error()
		}
	}
	return l, nil
}

// closeInherited closes what the server was given by whoever started it. What
// is ours, of the runtime, is not passed on to programs, and so can be told
// apart.
func closeInherited() error {
	unix.CloseOnExec(filesFD)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list open files: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= filesFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// limit sets the bounds of the process.
func limit(own bool) error {
	limits := []struct {
		name  string
		what  int
		bound uint64
	}{{"memory", unix.RLIMIT_DATA, maxMemory}, {"time", unix.RLIMIT_CPU, maxCPU}, {"files", unix.RLIMIT_NOFILE, 32}, {"file size", unix.RLIMIT_FSIZE, 0},
		{"cores", unix.RLIMIT_CORE, 0}, {"locked memory", unix.RLIMIT_MEMLOCK, 0}, {"messages", unix.RLIMIT_MSGQUEUE, 0}, {"threads", unix.RLIMIT_NPROC, 256}}
	if !own {
		limits = limits[:len(limits)-1] // it would count those of the user's other processes
	}
	for _, l := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("read bound of %s: %w", l.name, err)
		}
		bound := min(l.bound, now.Max)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: bound, Max: bound}); err != nil {
			return fmt.Errorf("bound %s: %w", l.name, err)
		}
	}
	return nil
}

// dropCapabilities gives up those that come with root, where the child has no
// user of its own.
func dropCapabilities() error {
	head, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// landlock gives up all of the file system and of TCP, and the sockets of
// others that have no file. There is no rule: nothing is let through.
func (l *Layers) landlock() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("the kernel has none: %w", errno)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER - 1}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	for _, v := range []struct {
		abi   uintptr
		files uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if abi >= v.abi {
			attr.Handled_access_fs |= v.files
		}
	}
	if abi >= 4 {
		attr.Handled_access_net, size = unix.LANDLOCK_ACCESS_NET_BIND_TCP|unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, size+unsafe.Sizeof(attr.Handled_access_net)
	}
	if abi >= 6 { // not LANDLOCK_SCOPE_SIGNAL: before 6.15 threads of one process could not signal each other
		attr.Scoped, size = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, size+unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make rules: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	// The kernel applies both to the calling thread alone.
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errors.Is(errno, unix.ENOTSUP) {
		return errors.New("a binary with cgo cannot enter it with all threads")
	} else if errno != 0 {
		return fmt.Errorf("give up new privileges: %w", errno)
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("enter: %w", errno)
	}
	l.Landlock = int(abi)
	return nil
}

// seccomp gives up new privileges and most system calls. The kernel applies
// both to all threads.
func (l *Layers) seccomp() error {
	filter, err := program(os.Getpid())
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // a few hundred
	tid, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return fmt.Errorf("set filter: %w", errno)
	case tid != 0:
		return fmt.Errorf("set filter: the thread %d has another", tid)
	}
	l.Seccomp = true
	return nil
}
