package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/volume"
)

// podFile is the pod as it was last seen, so that an agent that starts while
// the server is away can go on with it.
const podFile = "pod.json"

func (p *Pods) podDir(uid string) string { return filepath.Join(p.cfg.Dir, uid) }

// savePod notes a pod. Losing the note only matters when the server is away.
func (p *Pods) savePod(pod *corev1.Pod) {
	if p.cfg.Dir == "" {
		return
	}
	if err := p.writePod(pod); err != nil {
		p.log.Warn("save pod", "pod", pod.Namespace+"/"+pod.Name, "err", err)
	}
}

func (p *Pods) writePod(pod *corev1.Pod) error {
	b, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	dir := p.podDir(string(pod.UID))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, podFile), b, 0o600)
}

// loadPods reads the pods that were noted.
func (p *Pods) loadPods() (map[string]*corev1.Pod, error) {
	out := map[string]*corev1.Pod{}
	if p.cfg.Dir == "" {
		return out, nil
	}
	entries, err := os.ReadDir(p.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list pod directories: %w", err)
	}
	for _, e := range entries {
		pod := podOf(runtime.Container{PodUID: e.Name(), PodName: e.Name()})
		b, err := os.ReadFile(filepath.Join(p.cfg.Dir, e.Name(), podFile))
		if err == nil {
			saved := &corev1.Pod{}
			if json.Unmarshal(b, saved) == nil && string(saved.UID) == e.Name() {
				pod = saved
			}
		}
		out[e.Name()] = pod
	}
	return out, nil
}

// annotationStandIn marks pods that are not known beyond their containers.
// Nothing is done to them until the server has said whether they exist.
const annotationStandIn = "writ.dev/stand-in"

func standIn(pod *corev1.Pod) bool { return pod.Annotations[annotationStandIn] != "" }

// podOf makes a stand-in for a pod of which only a container is known. It is
// good enough to end it.
func podOf(c runtime.Container) *corev1.Pod {
	grace := int64(c.Grace.Seconds())
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.PodNamespace, Name: c.PodName, UID: types.UID(c.PodUID),
			Annotations: map[string]string{annotationStandIn: "true"},
		},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, RestartPolicy: corev1.RestartPolicyAlways},
	}
}

// addContainer makes sure that a stand-in lists a container.
func addContainer(pod *corev1.Pod, c runtime.Container) {
	if !standIn(pod) {
		return
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == c.Name {
				return
			}
		}
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
}

// purge removes all that is left of a pod: its containers, logs, directories.
func (w *worker) purge(ctx context.Context) error {
	list, err := w.p.cfg.Runtime.List(ctx, w.uid)
	if err != nil {
		return err
	}
	for _, c := range list {
		if err := w.p.cfg.Runtime.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
	if w.p.cfg.Dir == "" {
		return nil
	}
	if err := os.RemoveAll(w.p.podLogDir(w.pod)); err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	if err := volume.Remove(w.p.podDir(w.uid)); err != nil {
		return fmt.Errorf("remove pod directory: %w", err)
	}
	return nil
}

// podLogDir is where the logs of a pod are: <namespace>_<name>_<uid>.
func (p *Pods) podLogDir(pod *corev1.Pod) string {
	return filepath.Join(p.cfg.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// LogPath is the log of an attempt of a container.
func (p *Pods) LogPath(pod *corev1.Pod, container string, attempt int) string {
	return filepath.Join(p.podLogDir(pod), container, fmt.Sprintf("%d.log", attempt))
}

// dropAttempts removes the attempts of a container except one, with their logs.
func (w *worker) dropAttempts(ctx context.Context, name, keep, keepLog string) error {
	list, err := w.p.cfg.Runtime.List(ctx, w.uid)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Name != name || c.ID == keep {
			continue
		}
		if err := w.p.cfg.Runtime.Remove(ctx, c.ID); err != nil {
			return err
		}
		if c.LogPath != "" && c.LogPath != keepLog {
			if err := crilog.Remove(c.LogPath); err != nil {
				return err
			}
		}
	}
	return nil
}
