package pod

import (
	"bytes"
	"context"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// Limits of termination messages, as upstream.
const (
	maxMessage    = 4096
	maxLogMessage = 2048
	maxLogLines   = 80
)

// terminationMessage returns what an attempt left behind for its status.
func (w *worker) terminationMessage(c *runtime.Container) string {
	if c.State != runtime.Exited || c.TerminatedHost == "" {
		return ""
	}
	if b := readHead(c.TerminatedHost, maxMessage); len(b) > 0 {
		return string(b)
	}
	spec := w.spec(c.Name)
	if spec == nil || spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || c.ExitCode == 0 || c.LogPath == "" {
		return ""
	}
	var out bytes.Buffer
	if err := crilog.Read(context.Background(), c.LogPath, crilog.Options{Tail: maxLogLines}, &out); err != nil {
		return "Error on reading termination message from logs: " + err.Error()
	}
	b := out.Bytes()
	return string(b[max(0, len(b)-maxLogMessage):])
}

func readHead(path string, n int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, n))
	if err != nil {
		return nil
	}
	return b
}

// spec finds the definition of a container.
func (w *worker) spec(name string) *corev1.Container {
	for _, list := range [][]corev1.Container{w.pod.Spec.Containers, w.pod.Spec.InitContainers, ephemerals(w.pod)} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
