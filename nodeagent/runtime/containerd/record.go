package containerd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/containers"
	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// Labels of our containers in containerd.
const (
	labelPodUID       = "io.kubernetes.pod.uid"
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelName         = "io.kubernetes.container.name"
	labelAttempt      = "writ.dev/attempt"
	labelHash         = "writ.dev/hash"
	labelBackoff      = "writ.dev/backoff"
	labelGrace        = "writ.dev/grace"
	labelLog          = "writ.dev/log"
	labelTerminated   = "writ.dev/termination-log"
	labelImage        = "writ.dev/image"
	labelImageID      = "writ.dev/image-id"
	labelCgroup       = "writ.dev/cgroup"
	labelStdin        = "writ.dev/stdin" // "true", "once"
	labelTTY          = "writ.dev/tty"
	// labelPause marks the first process of a shared PID namespace.
	labelPause = "writ.dev/pause"
)

// record is a container as this process knows it. Its lock is held over
// actions on the container, mu of the runtime never is.
type record struct {
	act sync.Mutex

	mu     sync.Mutex
	c      runtime.Container
	cgroup string
	pause  bool
	stdin  bool
	once   bool // the end of the first input attached is the end of all
	tty    bool
	done   chan struct{} // made by ended, closed by finish
}

// ended is closed when the container does not run any more, and all that it
// printed is in its files.
func (r *record) ended() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.c.State == runtime.Exited {
			close(r.done)
		}
	}
	return r.done
}

// finish records the end of the container.
func (r *record) finish(how func(c *runtime.Container)) runtime.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil && r.c.State != runtime.Exited {
		close(r.done)
	}
	r.c.State, r.c.Pid = runtime.Exited, 0
	how(&r.c)
	return r.c
}

func (r *record) get() runtime.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.c
}

func (r *record) set(fn func(c *runtime.Container)) runtime.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.c)
	return r.c
}

func labelsOf(s runtime.Spec, imageRef, imageID, cgroup string) map[string]string {
	l := map[string]string{
		labelPodUID:       s.PodUID,
		labelPodName:      s.PodName,
		labelPodNamespace: s.PodNamespace,
		labelName:         s.Name,
		labelAttempt:      strconv.Itoa(s.Attempt),
		labelHash:         s.Hash,
		labelBackoff:      s.Backoff.String(),
		labelGrace:        s.Grace.String(),
		labelLog:          s.LogPath,
		labelTerminated:   s.TerminatedHost,
		labelImage:        imageRef,
		labelImageID:      imageID,
		labelCgroup:       cgroup,
	}
	if s.Stdin {
		l[labelStdin] = "true"
	}
	if s.Stdin && s.StdinOnce {
		l[labelStdin] = "once"
	}
	if s.TTY {
		l[labelTTY] = "true"
	}
	return l
}

// recordOf reads a container back from its labels.
func recordOf(c containers.Container) *record {
	l := c.Labels
	attempt, _ := strconv.Atoi(l[labelAttempt])
	backoff, _ := time.ParseDuration(l[labelBackoff])
	grace, _ := time.ParseDuration(l[labelGrace])
	return &record{
		cgroup: l[labelCgroup],
		pause:  l[labelPause] != "",
		stdin:  l[labelStdin] != "",
		once:   l[labelStdin] == "once",
		tty:    l[labelTTY] != "",
		c: runtime.Container{
			ID:             c.ID,
			PodUID:         l[labelPodUID],
			PodName:        l[labelPodName],
			PodNamespace:   l[labelPodNamespace],
			Name:           l[labelName],
			Attempt:        attempt,
			Hash:           l[labelHash],
			Backoff:        backoff,
			Grace:          grace,
			Image:          l[labelImage],
			ImageID:        l[labelImageID],
			LogPath:        l[labelLog],
			TerminatedHost: l[labelTerminated],
			State:          runtime.Created,
			CreatedAt:      c.CreatedAt,
		},
	}
}

// facts are what containerd does not keep about a container.
type facts struct {
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	ExitCode   int       `json:"exitCode,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
}

func (r *Runtime) containerDir(id string) string {
	return filepath.Join(r.cfg.DataDir, "containers", id)
}

func (r *Runtime) saveFacts(c runtime.Container) error {
	b, err := json.Marshal(facts{c.StartedAt, c.FinishedAt, c.ExitCode, c.Reason, c.Message})
	if err != nil {
		return err
	}
	path := filepath.Join(r.containerDir(c.ID), "state.json")
	err = durable.Replace(path, b, 0o600) // no container outlives its machine
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = overwrite(path, b)
	}
	if err != nil {
		return fmt.Errorf("save state of container %s: %w", c.ID, err)
	}
	return nil
}

// overwrite writes to the place that a small file already has: on a full disk
// there is no other.
func overwrite(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	return errors.Join(err, f.Close())
}

// loadFacts reads what was saved. A container that never started has nothing.
func (r *Runtime) loadFacts(id string) (facts, error) {
	var f facts
	b, err := os.ReadFile(filepath.Join(r.containerDir(id), "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("load state of container %s: %w", id, err)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return facts{}, nil // torn by a crash of the machine: as if it were not there
	}
	return f, nil
}
