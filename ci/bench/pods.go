package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// inOwnNetwork runs this program again in a network namespace of its own: the
// bridge and the rules of the node benchmarks stay there, and go with it.
func inOwnNetwork(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it has processes to stop
	return cmd.Run()
}

const marker = "WRIT_BENCH_NETWORK"

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// down stops containers and containerd.
func (e *env) down(ctx context.Context) {
	for _, p := range e.procs {
		e.stop(p)
	}
	_ = exec.CommandContext(ctx, e.bin, "down", "--data-dir", e.data()).Run() //nolint:errcheck // best effort on the way out
}

func podStarts(ctx context.Context, e *env, _ *exec.Cmd) ([]row, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, func() (bool, error) {
		l, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && len(l.Items) == 1 && len(l.Items[0].Spec.Taints) == 0, err
	}); err != nil {
		return nil, fmt.Errorf("wait for the node: %w", err)
	}
	if err := until(ctx, 10*time.Second, func() (bool, error) {
		_, err := c.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	}); err != nil {
		return nil, err
	}
	var serial, deleted []time.Duration
	for i := range 20 {
		up, err := startPods(ctx, c, i, 1)
		if err != nil {
			return nil, err
		}
		serial = append(serial, up)
		t := time.Now()
		if err := deletePods(ctx, c, 0); err != nil {
			return nil, err
		}
		deleted = append(deleted, time.Since(t))
	}
	many, err := startPods(ctx, c, 100, 30)
	if err != nil {
		return nil, err
	}
	return []row{
		{"P11", "pod with a local image, bound to running / deleted", "190 ms / 1.0 s", "150 / 60 ms", ms(median(serial)) + " / " + ms(median(deleted))},
		{"P11", "30 pods at once, all running", "3.5 s", "1.6 s", ms(many)},
	}, nil
}

// startPods creates n pods and returns the time from the first binding seen to
// the last pod seen running.
func startPods(ctx context.Context, c *kubernetes.Clientset, from, n int) (time.Duration, error) {
	w, err := c.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	for i := range n {
		if err := createPod(ctx, c, from+i); err != nil {
			return 0, err
		}
	}
	var bound time.Time
	running := map[string]bool{}
	for len(running) < n {
		select {
		case ev := <-w.ResultChan():
			p, ok := ev.Object.(*corev1.Pod)
			if !ok {
				return 0, fmt.Errorf("watch ended: %v", ev.Object)
			}
			if p.Spec.NodeName != "" && bound.IsZero() && p.Status.Phase == corev1.PodPending {
				bound = time.Now()
			}
			if p.Status.Phase == corev1.PodRunning {
				running[p.Name] = true
			}
		case <-time.After(30 * time.Second):
			return 0, fmt.Errorf("%d of %d pods run after 30 s", len(running), n)
		}
	}
	return time.Since(bound), nil
}

func deletePods(ctx context.Context, c *kubernetes.Clientset, left int) error {
	l, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, p := range l.Items {
		if err := c.CoreV1().Pods("default").Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return until(ctx, 30*time.Second, func() (bool, error) {
		l, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(l.Items) == left, err
	})
}
