package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// replicas measures a Deployment of 500 replicas until its 500 Pods exist.
func replicas(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	const n = 500
	labels := map[string]string{"app": "bench"}
	size, spec := int32(n), pod(0).Spec
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	w, err := c.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	d.Spec.Replicas, d.Spec.Selector = &size, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels, d.Spec.Template.Spec = labels, spec
	began := time.Now()
	if _, err := c.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for len(seen) < n {
		select {
		case ev := <-w.ResultChan():
			if o, ok := ev.Object.(metav1.Object); ok {
				seen[o.GetName()] = true
			}
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("%d of %d pods after 30 s", len(seen), n)
		}
	}
	took := time.Since(began)
	after, err := measure(p)
	if err != nil {
		return nil, err
	}
	return []row{{"P9", "Deployment of 500 replicas to 500 Pods", "0.75-1.11 s (24 s by default)", "60 ms", ms(took) + ", " + each(after.since(before), n)}}, nil
}

// schedule measures 5,000 pods on 1,000 simulated nodes, created meanwhile.
func schedule(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	const nodes = 1000
	if _, err := e.start(ctx, "agent", "--runtime", "fake", "--count", fmt.Sprint(nodes), "--server", "https://"+address); err != nil {
		return nil, err
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, func() (bool, error) {
		l, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready := 0
		for _, n := range l.Items {
			if len(n.Spec.Taints) == 0 && len(n.Status.Conditions) > 0 {
				ready++
			}
		}
		return ready == nodes, nil
	}); err != nil {
		return nil, fmt.Errorf("wait for %d nodes: %w", nodes, err)
	}
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := fill(ctx, e, stored); err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, func() (bool, error) {
		l, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		return err == nil && len(l.Items) == 0, err
	}); err != nil {
		return nil, fmt.Errorf("wait for bindings: %w", err)
	}
	took := time.Since(began)
	after, err := measure(p)
	if err != nil {
		return nil, err
	}
	return []row{{"P8", "create and schedule 5,000 pods on 1,000 nodes", "328/s, 5.7-6.8 ms CPU", "4,000/s, 0.4 ms CPU",
		fmt.Sprintf("%.0f/s, %s (the nodes' answers included)", stored/took.Seconds(), each(after.since(before), stored))}}, nil
}

// until polls every 20 ms.
func until(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v", limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// pods measures a pod with a local image, from bound to running.
func pods(ctx context.Context, e *env) ([]row, error) {
	if os.Getuid() != 0 {
		return []row{{"P11", "pod with a local image, bound to running", "190 ms", "150 ms", "not run: needs root"}}, nil
	}
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := e.start(ctx, "agent", "--server", "https://"+address); err != nil {
		return nil, err
	}
	defer e.down(ctx)
	return podStarts(ctx, e, p)
}

func size(_ context.Context, e *env) ([]row, error) {
	info, err := os.Stat(filepath.Clean(e.bin))
	if err != nil {
		return nil, err
	}
	return []row{{"P16", "binary of all roles, stripped", "430 MB in five binaries", "75 MB", fmt.Sprintf("%.0f MB", float64(info.Size())/1e6)}}, nil
}
