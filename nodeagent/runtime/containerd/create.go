package containerd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/cap"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/runtime"
)

const runcRuntime = "io.containerd.runc.v2"

// Create makes a container: its file system, its record in the daemon, the
// files for its output.
func (r *Runtime) Create(ctx context.Context, s runtime.Spec) (string, error) {
	ctx, err := r.await(ctx)
	if err != nil {
		return "", err
	}
	return r.create(ctx, s, false)
}

func (r *Runtime) create(ctx context.Context, s runtime.Spec, pause bool) (_ string, err error) {
	id := newID()
	img, err := r.unpacked(ctx, s.Image)
	if err != nil {
		return "", err
	}
	cgroupPath := path.Join(s.CgroupParent, id)
	spec, err := r.spec(ctx, id, s, img, cgroupPath, pause)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(r.containerDir(id), 0o700); err != nil {
		return "", fmt.Errorf("make container directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(r.containerDir(id))
		}
	}()
	if s.LogPath != "" {
		if err := crilog.PrepareRaw(r.containerDir(id)); err != nil {
			return "", err
		}
	}
	if s.Stdin {
		if err := unix.Mkfifo(r.stdinPath(id), 0o600); err != nil {
			return "", fmt.Errorf("make input of container: %w", err)
		}
	}
	snap := r.client.SnapshotService(r.snapshotter)
	// The label keeps the snapshot until its container's record does.
	if _, err := snap.Prepare(ctx, id, img.chainID, snapshots.WithLabels(map[string]string{
		"containerd.io/gc.root": time.Now().UTC().Format(time.RFC3339),
	})); err != nil {
		return "", fmt.Errorf("make file system of container: %w", err)
	}
	c, err := r.createRecord(ctx, id, s, spec, labelsOf(s, img.Ref, img.ID, cgroupPath), pause)
	if err != nil {
		_ = snap.Remove(ctx, id) // what is left goes when the agent starts again
		return "", err
	}
	rec := recordOf(c)
	r.mu.Lock()
	r.containers[id] = rec
	r.mu.Unlock()
	return id, nil
}

// createRecord stores the container in the daemon. The snapshot is held by the
// record from then on.
func (r *Runtime) createRecord(ctx context.Context, id string, s runtime.Spec, spec *oci.Spec, labels map[string]string, pause bool) (containers.Container, error) {
	var none containers.Container
	anySpec, err := typeurl.MarshalAny(spec)
	if err != nil {
		return none, fmt.Errorf("encode container specification: %w", err)
	}
	opts, err := typeurl.MarshalAny(&options.Options{})
	if err != nil {
		return none, fmt.Errorf("encode runtime options: %w", err)
	}
	if pause {
		labels[labelPause] = "true"
	}
	c, err := r.client.ContainerService().Create(ctx, containers.Container{
		ID:          id,
		Labels:      labels,
		Image:       s.Image,
		Runtime:     containers.RuntimeInfo{Name: runcRuntime, Options: opts},
		Spec:        anySpec,
		SnapshotKey: id,
		Snapshotter: r.snapshotter,
	})
	if err != nil {
		return none, fmt.Errorf("create container: %w", err)
	}
	return c, nil
}

// spec writes the OCI specification of a container.
func (r *Runtime) spec(ctx context.Context, id string, s runtime.Spec, img *unpackedImage, cgroupPath string, pause bool) (*oci.Spec, error) {
	ns, err := r.namespaces(s.PodUID, pause, s.ProcessesOf)
	if err != nil {
		return nil, err
	}
	h := host{
		namespaces: ns,
		clamp:      r.clamp,
		image:      img.config,
		cgroupPath: cgroupPath,
		sysctls:    r.sysctls(s.PodUID),
	}
	if shm := path.Join(r.sandboxDir(s.PodUID), fileShm); exists(shm) {
		h.shm = shm
	}
	if h.users, err = r.usersOf(ctx, img); err != nil {
		return nil, err
	}
	if h.allCaps, err = cap.Current(); err != nil {
		return nil, fmt.Errorf("read own capabilities: %w", err)
	}
	if s.Security.Privileged {
		if h.devices, err = oci.HostDevices(); err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
	}
	c := &containers.Container{ID: id}
	spec, err := oci.GenerateSpec(ctx, nil, c)
	if err != nil {
		return nil, fmt.Errorf("make container specification: %w", err)
	}
	if err := buildSpec(spec, s, h); err != nil {
		return nil, err
	}
	return spec, nil
}

// withLease keeps what fn makes in the daemon from being collected as garbage
// before something refers to it.
func (r *Runtime) withLease(ctx context.Context, fn func(ctx context.Context) error) error {
	ctx, done, err := r.client.WithLease(ctx)
	if err != nil {
		return fmt.Errorf("take lease: %w", err)
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }() // it expires by itself
	return fn(ctx)
}

const idBytes = 32

func newID() string {
	b := make([]byte, idBytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// usersOf reads the accounts of an image, once: its files are found in a view
// of its snapshot.
func (r *Runtime) usersOf(ctx context.Context, img *unpackedImage) (users, error) {
	img.usersOnce.Lock()
	defer img.usersOnce.Unlock()
	if img.users != nil {
		return *img.users, nil
	}
	var u users
	err := r.withLease(ctx, func(ctx context.Context) error {
		snap := r.client.SnapshotService(r.snapshotter)
		key := "users-" + newID()
		mounts, err := snap.View(ctx, key, img.chainID)
		if err != nil {
			return fmt.Errorf("view image: %w", err)
		}
		defer func() { _ = snap.Remove(ctx, key) }() // collected with the lease
		u, err = readUsers(mounts)
		return err
	})
	if err != nil && !errdefs.IsNotFound(err) {
		return users{}, fmt.Errorf("read users of image %s: %w", img.Ref, err)
	}
	img.users = &u
	return u, nil
}
