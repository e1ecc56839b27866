package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hostPathPod mounts a part of a host path by subPath.
func hostPathPod(t *testing.T, m *Mounter, host, sub string) *corev1.Pod {
	t.Helper()
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}})
	if _, err := m.Mount(t.Context(), p, Facts{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Mounts(t.Context(), p, &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: sub}}}, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// The data directory of a node may be reached through a link (/var/lib/writ on
// another disk). The files of a host path survive the end of the pod.
func TestUnmountThroughALinkKeepsHostPaths(t *testing.T) {
	asRoot(t)
	for name, data := range map[string]func(dir string) string{
		"a link": func(dir string) string {
			if err := os.Mkdir(filepath.Join(dir, "disk"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(dir, "disk"), filepath.Join(dir, "data")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "data", "pods")
		},
		"a name with a space": func(dir string) string { return filepath.Join(dir, "my data", "pods") },
		"plainly":             func(dir string) string { return filepath.Join(dir, "pods") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			precious := filepath.Join(dir, "host", "db", "precious")
			write(t, precious, "data")
			m := New(Config{Dir: data(dir)})
			p := hostPathPod(t, m, filepath.Join(dir, "host"), "db")
			if err := m.Unmount(t.Context(), string(p.UID)); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(precious); err != nil || string(b) != "data" {
				t.Fatalf("the host's file is gone: %v", err)
			}
			if left, _ := mountsBelow(m.cfg.Dir); len(left) > 0 {
				t.Errorf("still mounted: %v", left)
			}
		})
	}
}

// Whatever is mounted unknown to us, removing a directory does not walk into it.
func TestRemoveDoesNotCrossMounts(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "host", "precious"), "data")
	at := filepath.Join(dir, "pod", "a", "b")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(filepath.Join(dir, "host"), at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	parent, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	if err := removeAt(int(parent.Fd()), "pod", "pod"); err == nil || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("removed through a mount: %v", err)
	}
	if err := Remove(filepath.Join(dir, "pod")); err != nil {
		t.Errorf("remove: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "host", "precious")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pod")); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
}

// Big directories are removed to the last file.
func TestRemoveLargeDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	for i := range 3000 {
		write(t, filepath.Join(dir, "x", "f"+strings.Repeat("0", i%7)+string(rune('a'+i%26))+time.Duration(i).String()), "")
	}
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
}

// A FIFO as subPath is bound like any file; nobody waits for its writer.
func TestSubPathOfAFIFO(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	host := filepath.Join(dir, "host")
	write(t, filepath.Join(host, "x"), "")
	if err := unix.Mkfifo(filepath.Join(host, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := New(Config{Dir: filepath.Join(dir, "pods")})
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := hostPathPod(t, m, host, "fifo")
		if err := m.Unmount(t.Context(), string(p.UID)); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		f, _ := os.OpenFile(filepath.Join(host, "fifo"), os.O_RDWR, 0) // let it go
		defer f.Close()
		t.Fatal("the mount waits for the other end of the FIFO")
	}
}

// What a pod has made of its directory stays: Postgres wants its own at 0700.
func TestEmptyDirKeepsItsMode(t *testing.T) {
	for _, medium := range []corev1.StorageMedium{corev1.StorageMediumDefault, corev1.StorageMediumMemory} {
		if medium != "" {
			asRoot(t)
		}
		m := New(Config{Dir: t.TempDir(), Unprivileged: medium == ""})
		p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}})
		dir, err := m.Path(t.Context(), p, &p.Spec.Volumes[0])
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []os.FileMode{0o777, 0o700} {
			if _, err := m.Mount(t.Context(), p, Facts{}); err != nil {
				t.Fatal(err)
			}
			fi, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if fi.Mode().Perm() != want {
				t.Errorf("medium %q, mount %d: mode %v, want %v", medium, i, fi.Mode(), want)
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Unmount(t.Context(), string(p.UID)); err != nil {
			t.Error(err)
		}
	}
}

// As the kubelet, new directories of a subPath have the mode of the volume,
// with its group when that is inherited.
func TestNewSubPathHasTheModeOfTheVolume(t *testing.T) {
	asRoot(t)
	for _, c := range []struct {
		group *int64
		mode  os.FileMode
		gid   uint32
	}{{nil, os.ModeDir | 0o777, 0}, {new(int64(4321)), os.ModeDir | os.ModeSetgid | 0o777, 4321}} {
		m := New(Config{Dir: t.TempDir()})
		p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: c.group}
		if _, err := m.Mount(t.Context(), p, Facts{}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Mounts(t.Context(), p, &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: "a/b"}}}, nil); err != nil {
			t.Fatal(err)
		}
		dir, _ := m.Path(t.Context(), p, &p.Spec.Volumes[0])
		for _, sub := range []string{"", "a", "a/b"} {
			var st unix.Stat_t
			fi, err := os.Stat(filepath.Join(dir, sub))
			if err != nil || unix.Stat(filepath.Join(dir, sub), &st) != nil {
				t.Fatal(err)
			}
			if fi.Mode() != c.mode || st.Gid != c.gid {
				t.Errorf("%q: mode %v of group %d, want %v of %d", sub, fi.Mode(), st.Gid, c.mode, c.gid)
			}
		}
		if err := m.Unmount(t.Context(), string(p.UID)); err != nil {
			t.Error(err)
		}
	}
}
