package volume

import (
	"fmt"
	"os"
	"path/filepath"

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
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	switch medium {
	case corev1.StorageMediumMemory:
		if err := m.mountTmpfs(dir, size); err != nil {
			return err
		}
	case corev1.StorageMediumDefault:
	default:
		return fmt.Errorf("unknown storage medium %q", medium)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // past the umask
		return err
	}
	if g := fsGroup(pod); g != nil {
		return setGroup(dir, *g)
	}
	return nil
}

// mountTmpfs mounts a tmpfs unless there is one.
func (m *Mounter) mountTmpfs(dir string, size int64) error {
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
	var opts string
	if size > 0 {
		opts = fmt.Sprintf("size=%d", size)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
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

// setGroup lets a group read and write a directory, and own what is made in
// it.
func setGroup(dir string, gid int64) error {
	if err := os.Chown(dir, -1, int(gid)); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777|os.ModeSetgid)
}
