package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// holdProcesses binds the PID namespace of a container to a file of its
// sandbox and returns the file. runc opens the path later, in a process of its
// own: by then /proc/<pid> may be that of another process, with a namespace of
// the host. The bound one stays what it is.
func (r *Runtime) holdProcesses(uid, id string, rec *record) (string, error) {
	path := filepath.Join(r.sandboxDir(uid), filePID+id)
	if isNamespace(path) {
		return path, nil
	}
	if err := bindProcesses(rec.get().Pid, id, path); err != nil {
		return "", fmt.Errorf("hold PID namespace of container %s: %w", id, err)
	}
	return path, nil
}

// bindProcesses binds the PID namespace of a process to a file, if the process
// is of the container: its control group says so, and a descriptor of the
// process that it was one and the same all the while.
func bindProcesses(pid int, id, path string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	if !strings.Contains(string(groups), "/"+id) {
		return fmt.Errorf("process %d is not of the container", pid)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/%d/ns/pid", pid), path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
		return errors.Join(fmt.Errorf("process %d has ended: %w", pid, err), unix.Unmount(path, unix.MNT_DETACH), os.Remove(path))
	}
	return nil
}
