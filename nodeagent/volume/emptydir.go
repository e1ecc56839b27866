package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// mountEmptyDir makes an emptyDir. One that is there keeps what it holds.
func (m *Mounter) mountEmptyDir(pod *corev1.Pod, v *corev1.Volume) error {
	dir := filepath.Join(m.podDir(string(pod.UID)), "volumes", kindDir(v), v.Name)
	medium, size := corev1.StorageMediumDefault, int64(0)
	if v.EmptyDir != nil {
		medium = v.EmptyDir.Medium
		if v.EmptyDir.SizeLimit != nil {
			size = v.EmptyDir.SizeLimit.Value()
		}
	}
	switch medium {
	case corev1.StorageMediumMemory:
		return m.mountMemory(pod, dir, size)
	case corev1.StorageMediumDefault:
		return makeEmptyDir(dir, fsGroup(pod))
	}
	return fmt.Errorf("unknown storage medium %q", medium)
}

// makeEmptyDir makes a directory for all, unless it is there: then its mode and
// owner are what the pod has made of them. It comes into being with its mode.
func makeEmptyDir(dir string, gid *int64) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp := filepath.Join(filepath.Dir(dir), ".new."+filepath.Base(dir)) // no volume's name begins with a dot
	if err := os.MkdirAll(tmp, 0o777); err != nil {
		return err
	}
	if gid != nil {
		if err := os.Chown(tmp, -1, int(*gid)); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o777|setgid(gid)); err != nil { // past the umask
		return err
	}
	return os.Rename(tmp, dir)
}

// setgid lets what is made in a directory have its group.
func setgid(gid *int64) os.FileMode {
	if gid == nil {
		return 0
	}
	return os.ModeSetgid
}

// mountMemory mounts a tmpfs for all, unless it is there.
func (m *Mounter) mountMemory(pod *corev1.Pod, dir string, size int64) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	options := []string{"mode=0777"}
	if g := fsGroup(pod); g != nil {
		options = []string{"mode=2777", fmt.Sprintf("gid=%d", *g)}
	}
	if size > 0 {
		options = append(options, fmt.Sprintf("size=%d", size))
	}
	return m.mountTmpfs(dir, options...)
}

// mountTmpfs mounts a tmpfs unless there is one.
func (m *Mounter) mountTmpfs(dir string, options ...string) error {
	if m.cfg.Unprivileged {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if st.Type == unix.TMPFS_MAGIC && isMountPoint(dir) {
		return nil
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, strings.Join(options, ",")); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}

func isMountPoint(dir string) bool {
	var self, parent unix.Stat_t
	if unix.Lstat(dir, &self) != nil || unix.Lstat(filepath.Dir(dir), &parent) != nil {
		return false
	}
	return self.Dev != parent.Dev
}

func fsGroup(pod *corev1.Pod) *int64 {
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}
