package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

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
		out = append(out, runtime.Mount{HostPath: path, ContainerPath: vm.MountPath, ReadOnly: ro, Propagation: propagation(vm.MountPropagation)})
	}
	return out, nil
}

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
	f, err := root.Open(sub)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeSub(root, sub, fsGroup(pod)); err != nil {
			return "", err
		}
		f, err = root.Open(sub)
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

func makeSub(root *os.Root, sub string, gid *int64) error {
	if err := root.MkdirAll(sub, 0o750); err != nil {
		return err
	}
	if gid == nil {
		return root.Chmod(sub, 0o755)
	}
	if err := root.Chown(sub, -1, int(*gid)); err != nil {
		return err
	}
	return root.Chmod(sub, 0o775)
}

// makeTarget makes what is bound over, after taking away what an earlier
// attempt has bound.
func makeTarget(f *os.File, target string) error {
	for unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if fi.IsDir() {
		return os.Mkdir(target, 0o750)
	}
	return os.WriteFile(target, nil, 0o640)
}
