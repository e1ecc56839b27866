// Package volume gives pods their volumes: emptyDir, hostPath, configMap,
// secret, downwardAPI, projected, and the paths inside them that containers
// mount.
//
// Volumes live below Dir/<pod uid>/volumes/<kind>/<name>, where Kubernetes'
// tools look for them. What holds secrets or tokens is a tmpfs. Files made from
// objects are replaced all at once by a renamed link, so that a reader sees the
// old set or the new one, and are written again only when they change.
//
// It promises that Mount can be called at any time, also after a crash: it
// finishes what is missing, brings files up to date, and leaves what is right.
// Where an object cannot be read but its files are there, they stay.
package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

// Objects finds what volumes are made from. Its errors are the API's.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Tokens makes service-account tokens.
type Tokens interface {
	Token(ctx context.Context, namespace, account string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Config configures a Mounter.
type Config struct {
	Dir     string // of all pods
	Objects Objects
	Tokens  Tokens
	// Claim returns the host directory of a persistent volume claim; nil where
	// claims cannot be used.
	Claim func(ctx context.Context, namespace, claim string) (string, error)
	// Unprivileged makes no mounts, for simulated nodes and tests without root.
	Unprivileged bool
	Now          func() time.Time
	Log          *slog.Logger
}

// Mounter makes and removes the volumes of pods. Calls for one pod must not
// overlap.
type Mounter struct {
	cfg    Config
	tokens tokenCache
}

// New returns a Mounter.
func New(cfg Config) *Mounter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Mounter{cfg: cfg}
}

// Facts are what the downward API tells besides the pod.
type Facts struct {
	HostIP string
	PodIPs []string
	// Resource answers resourceFieldRef.
	Resource func(pod *corev1.Pod, ref *corev1.ResourceFieldSelector, container string) (string, error)
	// Field answers fieldRef.
	Field func(pod *corev1.Pod, path string) (string, error)
}

// Mount makes the volumes of a pod and brings their files up to date. It
// returns when they must be looked at again by the clock (zero: never).
func (m *Mounter) Mount(ctx context.Context, pod *corev1.Pod, f Facts) (time.Time, error) {
	var next time.Time
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		again, err := m.mount(ctx, pod, v, f)
		if err != nil {
			errs = append(errs, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err))
		}
		if !again.IsZero() && (next.IsZero() || again.Before(next)) {
			next = again
		}
	}
	return next, errors.Join(errs...)
}

func (m *Mounter) mount(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, f Facts) (time.Time, error) {
	switch {
	case v.HostPath != nil:
		return time.Time{}, checkHostPath(v.HostPath)
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		_, err := m.claim(ctx, pod, v)
		return time.Time{}, err
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil:
		return m.mountFiles(ctx, pod, v, f)
	case v.EmptyDir != nil, v.VolumeSource == (corev1.VolumeSource{}):
		return time.Time{}, m.mountEmptyDir(pod, v)
	}
	return time.Time{}, errors.New("this kind of volume is not supported by this node")
}

func (m *Mounter) claim(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	if m.cfg.Claim == nil {
		return "", errors.New("persistent volume claims are not supported by this node")
	}
	name := pod.Name + "-" + v.Name
	if v.PersistentVolumeClaim != nil {
		name = v.PersistentVolumeClaim.ClaimName
	}
	return m.cfg.Claim(ctx, pod.Namespace, name)
}

// kindDir is the directory of a kind of volume, as upstream escapes its plugin
// names.
func kindDir(v *corev1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return "kubernetes.io~configmap"
	case v.Secret != nil:
		return "kubernetes.io~secret"
	case v.DownwardAPI != nil:
		return "kubernetes.io~downward-api"
	case v.Projected != nil:
		return "kubernetes.io~projected"
	}
	return "kubernetes.io~empty-dir"
}

func (m *Mounter) podDir(uid string) string { return filepath.Join(m.cfg.Dir, uid) }

// Path returns the host directory of a volume.
func (m *Mounter) Path(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path, nil
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		return m.claim(ctx, pod, v)
	}
	return filepath.Join(m.podDir(string(pod.UID)), "volumes", kindDir(v), v.Name), nil
}

// Unmount removes the volumes of a pod with all they hold. Host paths stay.
func (m *Mounter) Unmount(_ context.Context, uid string) error {
	m.tokens.forget(uid)
	dir := m.podDir(uid)
	for _, d := range []string{"volumes", "volume-subpaths"} {
		if err := Remove(filepath.Join(dir, d)); err != nil {
			return fmt.Errorf("remove volumes of pod %s: %w", uid, err)
		}
	}
	return nil
}

// checkHostPath makes what a hostPath may make, and checks its type.
func checkHostPath(h *corev1.HostPathVolumeSource) error {
	t := corev1.HostPathUnset
	if h.Type != nil {
		t = *h.Type
	}
	switch t {
	case corev1.HostPathUnset:
		return nil
	case corev1.HostPathDirectoryOrCreate:
		if err := os.MkdirAll(h.Path, 0o755); err != nil {
			return err
		}
		t = corev1.HostPathDirectory
	case corev1.HostPathFileOrCreate:
		if f, err := os.OpenFile(h.Path, os.O_CREATE, 0o644); err == nil {
			_ = f.Close()
		}
		t = corev1.HostPathFile
	}
	fi, err := os.Stat(h.Path)
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %s is not a %s: %w", h.Path, hostPathWords[t], err)
	}
	if !hostPathIs[t](fi.Mode()) {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", h.Path, hostPathWords[t])
	}
	return nil
}

var hostPathWords = map[corev1.HostPathType]string{
	corev1.HostPathDirectory: "directory", corev1.HostPathFile: "file", corev1.HostPathSocket: "socket file",
	corev1.HostPathCharDev: "character device", corev1.HostPathBlockDev: "block device",
}

var hostPathIs = map[corev1.HostPathType]func(fs.FileMode) bool{
	corev1.HostPathDirectory: fs.FileMode.IsDir,
	corev1.HostPathFile:      fs.FileMode.IsRegular,
	corev1.HostPathSocket:    func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 },
	corev1.HostPathCharDev:   func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 },
	corev1.HostPathBlockDev:  func(m fs.FileMode) bool { return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0 },
}
