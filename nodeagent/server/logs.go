package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/crilog"
)

// followInterval is how often a log that is followed asks whether its
// container has ended.
const followInterval = 250 * time.Millisecond

// logs answers /containerLogs/{namespace}/{pod}/{container}.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	pod, ok := s.cfg.Pods.Get(namespace, name)
	if !ok {
		http.Error(w, fmt.Sprintf("pod %q does not exist", name), http.StatusNotFound)
		return
	}
	opts, previous, err := options(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	src, err := choose(pod, container, previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if opts.Follow {
		opts.Done = s.ended(ctx, namespace, name, container, src.id)
	}
	err = crilog.Read(ctx, s.cfg.Pods.LogPath(pod, container, src.attempt), opts, &flusher{w: w})
	if errors.Is(err, fs.ErrNotExist) {
		return // it has not printed anything yet
	}
	if err != nil && ctx.Err() == nil {
		http.Error(w, fmt.Sprintf("read log of %s/%s: %v", name, container, err), http.StatusInternalServerError)
	}
}

// options reads the parameters of PodLogOptions.
func options(q url.Values) (o crilog.Options, previous bool, err error) {
	o.Tail = -1
	for _, n := range []struct {
		name string
		set  func(int64)
	}{
		{"tailLines", func(v int64) { o.Tail = v }},
		{"limitBytes", func(v int64) { o.LimitBytes = v }},
		{"sinceSeconds", func(v int64) { o.Since = time.Now().Add(-time.Duration(v) * time.Second) }},
	} {
		if text := q.Get(n.name); text != "" {
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil || v < 0 {
				return o, false, fmt.Errorf("%s: must be a number that is not negative, is %q", n.name, text)
			}
			n.set(v)
		}
	}
	if text := q.Get("sinceTime"); text != "" {
		if o.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return o, false, fmt.Errorf("sinceTime: %w", err)
		}
	}
	switch q.Get("stream") {
	case "Stdout":
		o.Stream = crilog.Stdout
	case "Stderr":
		o.Stream = crilog.Stderr
	}
	o.Follow, o.Timestamps = q.Get("follow") == "true", q.Get("timestamps") == "true"
	return o, q.Get("previous") == "true", nil
}

// log is which of a container's logs to read.
type log struct {
	id      string // of the container
	attempt int
}

// choose picks the log that a request means, with upstream's refusals
// (kubelet, validateContainerLogStatus).
func choose(pod *corev1.Pod, container string, previous bool) (log, error) {
	st, ok := statusOf(pod, container)
	if !ok {
		return log{}, fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
	}
	last := st.LastTerminationState.Terminated
	attempt := int(st.RestartCount)
	switch {
	case previous && (last == nil || last.ContainerID == ""):
		return log{}, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case previous && st.State.Waiting == nil:
		return log{last.ContainerID, attempt - 1}, nil
	case previous:
		return log{last.ContainerID, attempt}, nil
	case st.State.Running != nil:
		return log{st.ContainerID, attempt}, nil
	case st.State.Terminated != nil && st.State.Terminated.ContainerID != "":
		return log{st.State.Terminated.ContainerID, attempt}, nil
	case last != nil && last.ContainerID != "":
		return log{last.ContainerID, attempt}, nil
	case st.State.Terminated != nil:
		return log{}, fmt.Errorf("container %q in pod %q is terminated", container, pod.Name)
	}
	return log{}, fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name, waiting(st.State.Waiting))
}

// waiting says why a container waits, as upstream words it.
func waiting(w *corev1.ContainerStateWaiting) string {
	if w == nil {
		return "no reason"
	}
	switch w.Reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	case "":
		return "no reason"
	}
	return w.Reason
}

func statusOf(pod *corev1.Pod, container string) (corev1.ContainerStatus, bool) {
	s := pod.Status
	all := slices.Concat(s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses)
	i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if i < 0 {
		return corev1.ContainerStatus{}, false
	}
	return all[i], true
}

// ended is closed when the container does not run any more, or its pod is gone.
func (s *Server) ended(ctx context.Context, namespace, name, container, id string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(followInterval)
		defer tick.Stop()
		for {
			pod, ok := s.cfg.Pods.Get(namespace, name)
			if !ok {
				return
			}
			if st, ok := statusOf(pod, container); !ok || st.State.Running == nil || st.ContainerID != id {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return done
}

// flusher sends every piece at once: somebody is waiting for the line.
type flusher struct{ w http.ResponseWriter }

// Write implements io.Writer.
func (f *flusher) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = http.NewResponseController(f.w).Flush()
	}
	return n, err
}
