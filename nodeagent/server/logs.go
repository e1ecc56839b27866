package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/nodeagent/crilog"
)

// followInterval is how often a log that is followed asks whether its
// container has ended.
const followInterval = 250 * time.Millisecond

// logs answers /containerLogs/{namespace}/{pod}/{container}. The refusals are
// upstream's, quotes and all.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	api, err := logOptions(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, `{"message": "Unable to decode query."}`)
		return
	}
	if !valid(api) {
		refuse(w, http.StatusUnprocessableEntity, `{"message": "Invalid request."}`)
		return
	}
	pod, ok := s.cfg.Pods.Get(namespace, name)
	if !ok {
		refuse(w, http.StatusNotFound, fmt.Sprintf("pod %q does not exist", name))
		return
	}
	if !hasContainer(pod, container) {
		refuse(w, http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", container, name))
		return
	}
	src, err := choose(pod, container, api.Previous)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	opts := readOptions(api, time.Now())
	if opts.Follow {
		opts.Done = s.ended(ctx, namespace, name, container, src.id)
	}
	w.Header().Set("Content-Type", "text/plain")
	err = crilog.Read(ctx, s.cfg.Pods.LogPath(pod, container, src.attempt), opts, &flusher{w: w})
	if errors.Is(err, fs.ErrNotExist) {
		return // it has not printed anything yet
	}
	if err != nil && ctx.Err() == nil {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("read log of %s/%s: %v", name, container, err))
	}
}

// logOptions decodes the parameters of PodLogOptions; "tail" is an old name of
// tailLines.
func logOptions(q url.Values) (*corev1.PodLogOptions, error) {
	if tail := q.Get("tail"); tail != "" {
		q.Set("tailLines", tail)
		if tail == "all" {
			q.Del("tailLines")
		}
	}
	o := &corev1.PodLogOptions{}
	for name, to := range map[string]**int64{"tailLines": &o.TailLines, "limitBytes": &o.LimitBytes, "sinceSeconds": &o.SinceSeconds} {
		in := q[name]
		if err := runtime.Convert_Slice_string_To_Pointer_int64(&in, to, nil); err != nil {
			return nil, err
		}
	}
	for name, to := range map[string]*bool{"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps} {
		if in := q[name]; in != nil {
			if err := runtime.Convert_Slice_string_To_bool(&in, to, nil); err != nil {
				return nil, err
			}
		}
	}
	if text := q.Get("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, err
		}
		o.SinceTime = &metav1.Time{Time: at}
	}
	if text := q.Get("stream"); text != "" {
		o.Stream = &text
	}
	return o, nil
}

// valid applies the rules of upstream's ValidatePodLogOptions.
func valid(o *corev1.PodLogOptions) bool {
	stream := corev1.LogStreamAll
	if o.Stream != nil {
		stream = *o.Stream
	}
	known := stream == corev1.LogStreamAll || stream == corev1.LogStreamStdout || stream == corev1.LogStreamStderr
	switch {
	case o.TailLines != nil && (*o.TailLines < 0 || stream != corev1.LogStreamAll),
		o.LimitBytes != nil && *o.LimitBytes < 1,
		o.SinceSeconds != nil && (*o.SinceSeconds < 1 || o.SinceTime != nil),
		!known:
		return false
	}
	return true
}

// readOptions says it in the words of the reader.
func readOptions(api *corev1.PodLogOptions, now time.Time) crilog.Options {
	o := crilog.Options{Tail: -1, Follow: api.Follow, Timestamps: api.Timestamps}
	if api.TailLines != nil {
		o.Tail = *api.TailLines
	}
	if api.LimitBytes != nil {
		o.LimitBytes = *api.LimitBytes
	}
	switch {
	case api.SinceSeconds != nil:
		o.Since = now.Add(-time.Duration(*api.SinceSeconds) * time.Second)
	case api.SinceTime != nil:
		o.Since = api.SinceTime.Time
	}
	if api.Stream != nil {
		o.Stream = map[string]crilog.Stream{corev1.LogStreamStdout: crilog.Stdout, corev1.LogStreamStderr: crilog.Stderr}[*api.Stream]
	}
	return o
}

// hasContainer says whether a pod defines a container.
func hasContainer(pod *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if slices.ContainsFunc(list, func(c corev1.Container) bool { return c.Name == name }) {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
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
