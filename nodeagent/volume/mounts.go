package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Mounts returns the mounts of a container. expand answers $(NAME) in
// subPathExpr.
func (m *Mounter) Mounts(ctx context.Context, pod *corev1.Pod, c *corev1.Container, expand func(string) (string, error)) ([]runtime.Mount, error) {
	var out []runtime.Mount
	for i, vm := range c.VolumeMounts {
		v := find(pod, vm.Name)
		if v == nil {
			return nil, fmt.Errorf("mount cannot be satisfied for container %q, because the volume is missing: %s", c.Name, vm.Name)
		}
		path, err := m.Path(ctx, pod, v)
		if err != nil {
			return nil, err
		}
		sub := vm.SubPath
		if vm.SubPathExpr != "" {
			if sub, err = expand(vm.SubPathExpr); err != nil {
				return nil, err
			}
		}
		if sub != "" {
			if path, err = m.subPath(pod, c.Name, i, v, path, sub); err != nil {
				return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", vm.Name, c.Name, err)
			}
		} else if v.HostPath != nil {
			if err := makeHostPath(path); err != nil {
				return nil, err
			}
		}
		ro := vm.ReadOnly || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
		out = append(out, runtime.Mount{HostPath: path, ContainerPath: vm.MountPath, ReadOnly: ro, Propagation: propagation(vm.MountPropagation),
			RecursiveReadOnly: vm.ReadOnly && m.recursive(vm.RecursiveReadOnly)})
	}
	return out, nil
}

// recursive says whether a read-only mount is so with all that is mounted below
// it. IfPossible is where the kernel can.
func (m *Mounter) recursive(mode *corev1.RecursiveReadOnlyMode) bool {
	return mode != nil && (*mode == corev1.RecursiveReadOnlyEnabled || *mode == corev1.RecursiveReadOnlyIfPossible && RecursiveReadOnly())
}

// RecursiveReadOnly says whether the kernel makes mounts read-only with all that
// is mounted below (mount_setattr(2), Linux 5.12).
var RecursiveReadOnly = sync.OnceValue(func() bool {
	return !errors.Is(unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}), unix.ENOSYS)
})

func find(pod *corev1.Pod, name string) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

// makeHostPath makes the directory of a hostPath without a type, as container
// runtimes do.
func makeHostPath(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.MkdirAll(path, 0o755)
}

func propagation(p *corev1.MountPropagationMode) runtime.Propagation {
	if p == nil {
		return runtime.PropagationPrivate
	}
	switch *p {
	case corev1.MountPropagationBidirectional:
		return runtime.PropagationShared
	case corev1.MountPropagationHostToContainer:
		return runtime.PropagationSlave
	}
	return runtime.PropagationPrivate
}

// subPath binds a path inside a volume to a place of its own. It is opened
// below the volume once and bound by its descriptor: a link that a container
// puts there meanwhile cannot lead out.
func (m *Mounter) subPath(pod *corev1.Pod, container string, index int, v *corev1.Volume, volume, sub string) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("subPath %q must be a relative path inside the volume", sub)
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := openSub(volume, sub)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeSub(root, sub); err != nil {
			return "", err
		}
		f, err = openSub(volume, sub)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if m.cfg.Unprivileged {
		return filepath.Join(volume, sub), nil
	}
	target := filepath.Join(m.podDir(string(pod.UID)), "volume-subpaths", v.Name, container, strconv.Itoa(index))
	if err := makeTarget(f, target); err != nil {
		return "", err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("bind %s: %w", sub, err)
	}
	return target, nil
}

// openSub names a path inside a volume without opening what is there: a FIFO
// would wait for its other end, a device do whatever it does. Links that lead
// out of the volume are refused by the kernel.
func openSub(volume, sub string) (*os.File, error) {
	dir, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: volume, Err: err}
	}
	defer unix.Close(dir)
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, sub, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), filepath.Join(volume, sub)), nil
		case errors.Is(err, unix.EXDEV):
			return nil, fmt.Errorf("subPath %q leads out of the volume", sub)
		case errors.Is(err, unix.EAGAIN) && tries < 100: // something was renamed just then
		default:
			return nil, &fs.PathError{Op: "open", Path: filepath.Join(volume, sub), Err: err}
		}
	}
}

// makeSub makes the directories of a subPath with the mode of the volume
// itself, as the kubelet: where the volume passes on its group, they have it.
func makeSub(root *os.Root, sub string) error {
	fi, err := root.Stat(".")
	if err != nil {
		return err
	}
	mode := fi.Mode() & (fs.ModePerm | fs.ModeSetgid)
	path := ""
	for part := range strings.SplitSeq(filepath.Clean(sub), "/") {
		path = filepath.Join(path, part)
		err := root.Mkdir(path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = root.Chmod(path, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeTarget makes what is bound over, after taking away what an earlier
// attempt has bound.
func makeTarget(f *os.File, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if err := Remove(target); err != nil {
		return err
	}
	if fi.IsDir() {
		return os.Mkdir(target, 0o750)
	}
	return os.WriteFile(target, nil, 0o640)
}
