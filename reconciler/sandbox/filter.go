package sandbox

import (
	"fmt"
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// calls are the system calls of a Go runtime that has started, and of reading
// and writing what is open.
var calls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_PREAD64, // the runtime reads the bound of its cgroup
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_MREMAP, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_GETRANDOM, unix.SYS_UNAME,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, // of threads of a binary with cgo
}

// argument is a test of one argument of a system call: of the bits of mask, no
// others than these are set. The upper half of the arguments is not looked at:
// the kernel takes none of them for more than an int.
type argument struct {
	n    uint32
	mask uint32
	want uint32
}

// guarded are system calls that only some arguments are allowed to.
func guarded(pid int) []struct {
	call uint32
	args []argument
} {
	return []struct {
		call uint32
		args []argument
	}{
		// Memory of its own and without a file, that holds no program: what is
		// shared would not count as data.
		{unix.SYS_MMAP, []argument{{2, unix.PROT_EXEC, 0}, {3, unix.MAP_SHARED | unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}}},
		{unix.SYS_MPROTECT, []argument{{2, unix.PROT_EXEC, 0}}},
		{unix.SYS_CLONE, []argument{{0, unix.CLONE_THREAD, unix.CLONE_THREAD}}},
		{unix.SYS_RECVMSG, []argument{{0, 0xffffffff, filesFD}}},    // files that it is given
		{unix.SYS_TGKILL, []argument{{0, 0xffffffff, uint32(pid)}}}, //nolint:gosec // a process
		{unix.SYS_FCNTL, []argument{{1, ^uint32(7), 0}}},            // flags and locks, and not who is sent signals
	}
}

// architectures are what the kernel calls them (linux/audit.h).
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64}

// Offsets in struct seccomp_data (linux/seccomp.h), of the lower halves of the
// arguments on machines that are little-endian, as the three are.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16
)

const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

// program is the filter of a process.
func program(pid int) ([]unix.SockFilter, error) {
	arch, ok := architectures[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("no filter is known for %s", runtime.GOARCH)
	}
	ins := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: refuse},
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: 1 << 30, SkipTrue: 1}, // x32
		bpf.RetConstant{Val: refuse},
	}
	for _, c := range calls {
		ins = append(ins, bpf.JumpIf{Cond: bpf.JumpEqual, Val: c, SkipFalse: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	}
	for _, g := range guarded(pid) {
		ins = append(ins, bpf.JumpIf{Cond: bpf.JumpEqual, Val: g.call, SkipFalse: uint8(4*len(g.args) + 1)}) //nolint:gosec // two at most
		for _, a := range g.args {
			ins = append(ins, bpf.LoadAbsolute{Off: offsetArgs + 8*a.n, Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: a.mask},
				bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.want, SkipTrue: 1}, bpf.RetConstant{Val: refuse})
		}
		ins = append(ins, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	}
	// clone3 hides its flags from a filter; libraries know that it may be missing.
	ins = append(ins, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE3, SkipFalse: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		bpf.RetConstant{Val: refuse})
	raw, err := bpf.Assemble(ins)
	if err != nil {
		return nil, fmt.Errorf("assemble filter: %w", err)
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}
