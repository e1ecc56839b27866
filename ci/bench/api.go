package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const stored = 5000 // pods

func startup(ctx context.Context, e *env) ([]row, error) {
	var empty, small []time.Duration
	for range 5 {
		if err := os.RemoveAll(e.data()); err != nil {
			return nil, err
		}
		p, took, err := e.server(ctx)
		if err != nil {
			return nil, err
		}
		e.stop(p)
		empty = append(empty, took)
		if p, took, err = e.server(ctx); err != nil {
			return nil, err
		}
		e.stop(p)
		small = append(small, took)
	}
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, e, stored); err != nil {
		return nil, err
	}
	e.stop(p)
	var full []time.Duration
	for range 5 {
		p, took, err := e.server(ctx)
		if err != nil {
			return nil, err
		}
		e.stop(p)
		full = append(full, took)
	}
	return []row{
		{"P1", "exec to ready, empty data dir / restart", "2.7 s / 2.2 s", "150 ms", ms(median(empty)) + " / " + ms(median(small))},
		{"P1", "exec to ready, 5,000 pods stored", "2.0-2.6 s", "400 ms", ms(median(full))},
	}, nil
}

func idle(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	time.Sleep(20 * time.Second)
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	const window = 30 * time.Second
	time.Sleep(window)
	u, err := measure(p)
	if err != nil {
		return nil, err
	}
	cpu := float64(u.since(before)) / float64(window) * 100
	return []row{{"P2", "control plane idle: anonymous memory (RSS), CPU", "244 MiB (461), 3-5 %", "60 MiB, 2 %",
		fmt.Sprintf("%s (%s), %.1f %%", mib(u.anon), mib(u.rss), cpu)}}, nil
}

func creates(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	const n = 10000
	var rows []row
	for _, kind := range []struct {
		name, peer, goal string
		create           func(context.Context, *kubernetes.Clientset, int) error
	}{
		{"ConfigMaps", "1,842-2,120/s, 0.75 ms CPU", "4,000/s", createConfigMap},
		{"Pods", "1,200/s, 1.36 ms CPU", "0.4 ms CPU", createPod},
	} {
		before, err := measure(p)
		if err != nil {
			return nil, err
		}
		took, p50, err := parallel(ctx, e, n, 16, kind.create)
		if err != nil {
			return nil, err
		}
		after, err := measure(p)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{"P3", "create " + kind.name + ", 16 clients over TLS", kind.peer, kind.goal,
			fmt.Sprintf("%.0f/s, %s, p50 %.1f ms", n/took.Seconds(), each(after.since(before), n), float64(p50)/1e6)})
	}
	return rows, nil
}

func createConfigMap(ctx context.Context, c *kubernetes.Clientset, i int) error {
	_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%06d", i)},
		Data:       map[string]string{"key": fmt.Sprintf("%0100d", i)},
	}, metav1.CreateOptions{})
	return err
}

func createPod(ctx context.Context, c *kubernetes.Clientset, i int) error {
	_, err := c.CoreV1().Pods("default").Create(ctx, pod(i), metav1.CreateOptions{})
	return err
}

func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%06d", i), Labels: map[string]string{"app": "bench"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "writ.local/pause:v1",
			Env:   []corev1.EnvVar{{Name: "A", Value: "b"}},
			Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				"cpu": resource.MustParse("10m"), "memory": resource.MustParse("16Mi")}},
		}}},
	}
}

// parallel calls f n times from some workers over four connections.
func parallel(ctx context.Context, e *env, n, workers int, f func(context.Context, *kubernetes.Clientset, int) error) (took, p50 time.Duration, err error) {
	var clients []*kubernetes.Clientset
	for range 4 {
		cfg, err := e.config()
		if err != nil {
			return 0, 0, err
		}
		cfg.Dial = (&net.Dialer{}).DialContext // its own dialer: its own connection
		c, err := kubernetes.NewForConfig(rest.AddUserAgent(cfg, fmt.Sprintf("bench-%d", len(clients))))
		if err != nil {
			return 0, 0, err
		}
		clients = append(clients, c)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	each := make([]time.Duration, n)
	errs := make(chan error, workers)
	began := time.Now()
	for w := range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				t := time.Now()
				if err := f(ctx, clients[w%len(clients)], i); err != nil {
					errs <- err
					return
				}
				each[i] = time.Since(t)
			}
		})
	}
	wg.Wait()
	took = time.Since(began)
	select {
	case err = <-errs:
	default:
	}
	return took, median(each), err
}

func fill(ctx context.Context, e *env, n int) error {
	_, _, err := parallel(ctx, e, n, 16, createPod)
	return err
}

func median(d []time.Duration) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}
