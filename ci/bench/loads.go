package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func versusIdle(_ context.Context, _ *env, p *exec.Cmd) ([]figure, error) {
	time.Sleep(15 * time.Second)
	u, err := measure(p)
	if err != nil {
		return nil, err
	}
	return []figure{{work: "idle memory, anonymous", goal: 0.25, value: mibs(u.anon), unit: "MiB"}}, nil
}

func mibs(n int64) float64 { return float64(n) / (1 << 20) }

// enough creates what is missing of n numbered objects.
func enough(ctx context.Context, e *env, n int, get, create func(context.Context, *kubernetes.Clientset, int) error) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	if err := account(ctx, c); err != nil {
		return err
	}
	have := sort.Search(n, func(i int) bool { return get(ctx, c, i) != nil })
	if have == n {
		return nil
	}
	_, _, err = parallel(ctx, e, n-have, 16, func(ctx context.Context, c *kubernetes.Clientset, i int) error { return create(ctx, c, have+i) })
	return err
}

func getConfigMap(ctx context.Context, c *kubernetes.Clientset, i int) error {
	_, err := c.CoreV1().ConfigMaps("default").Get(ctx, fmt.Sprintf("bench-%06d", i), metav1.GetOptions{})
	return err
}

func getPod(ctx context.Context, c *kubernetes.Clientset, i int) error {
	_, err := c.CoreV1().Pods("default").Get(ctx, fmt.Sprintf("bench-%06d", i), metav1.GetOptions{})
	return err
}

// account lets pods be created where no controller makes accounts.
func account(ctx context.Context, c *kubernetes.Clientset) error {
	_, err := c.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func versusWrite(ctx context.Context, e *env, p *exec.Cmd) ([]figure, error) {
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	took, _, err := parallel(ctx, e, versusCreates, 16, createConfigMap)
	if err != nil {
		return nil, err
	}
	after, err := measure(p)
	if err != nil {
		return nil, err
	}
	return []figure{
		{work: "create ConfigMaps, 16 clients", goal: 3, rate: true, value: versusCreates / took.Seconds(), unit: "/s"},
		{work: "CPU of a create", goal: 0.4, value: perOp(after.since(before), versusCreates), unit: "us"},
	}, nil
}

func versusRead(ctx context.Context, e *env, p *exec.Cmd) ([]figure, error) {
	if err := enough(ctx, e, versusCreates, getConfigMap, createConfigMap); err != nil {
		return nil, err
	}
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	_, _, err = parallel(ctx, e, versusGets, 16, func(ctx context.Context, c *kubernetes.Clientset, i int) error {
		return getConfigMap(ctx, c, i%versusCreates)
	})
	if err != nil {
		return nil, err
	}
	after, err := measure(p)
	if err != nil {
		return nil, err
	}
	return []figure{{work: "CPU of a GET", goal: 0.2, value: perOp(after.since(before), versusGets), unit: "us"}}, nil
}

func versusList(ctx context.Context, e *env, p *exec.Cmd) ([]figure, error) {
	if err := enough(ctx, e, versusPods/2, getPod, createPod); err != nil {
		return nil, err
	}
	listed, err := timeLists(ctx, e, p)
	if err != nil {
		return nil, err
	}
	var out []figure
	for _, l := range listed {
		out = append(out,
			figure{work: "LIST 5,000 pods, " + l.format, goal: 0.25, value: l.took.Seconds() * 1000, unit: "ms"},
			figure{work: "CPU of it", goal: 0.25, value: perOp(l.cpu, 1) / 1000, unit: "ms"})
	}
	return out, nil
}

// watchers opens watches of all ConfigMaps and counts what they deliver.
func watchers(ctx context.Context, e *env, n int) (seen *sync.WaitGroup, err error) {
	cfg, err := e.config()
	if err != nil {
		return nil, err
	}
	seen = &sync.WaitGroup{}
	for i := range n {
		cfg.Dial = nil
		c, err := kubernetes.NewForConfig(rest.AddUserAgent(cfg, fmt.Sprintf("watch-%d", i%10)))
		if err != nil {
			return nil, err
		}
		w, err := c.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=bench-000000"})
		if err != nil {
			return nil, err
		}
		seen.Go(func() {
			defer w.Stop()
			for ev := range w.ResultChan() {
				if cm, ok := ev.Object.(*corev1.ConfigMap); ok && ev.Type == watch.Modified && cm.Data["last"] == "true" {
					return
				}
			}
		})
	}
	return seen, nil
}

func versusFanOut(ctx context.Context, e *env, p *exec.Cmd) ([]figure, error) {
	if err := enough(ctx, e, 1, getConfigMap, createConfigMap); err != nil {
		return nil, err
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	seen, err := watchers(ctx, e, versusWatchers)
	if err != nil {
		return nil, err
	}
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	for i := range versusUpdates {
		patch, err := json.Marshal(map[string]any{"data": map[string]string{"turn": fmt.Sprint(i), "last": fmt.Sprint(i == versusUpdates-1)}})
		if err != nil {
			return nil, err
		}
		if _, err := c.CoreV1().ConfigMaps("default").Patch(ctx, "bench-000000", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, err
		}
	}
	seen.Wait()
	after, err := measure(p)
	if err != nil {
		return nil, err
	}
	return []figure{{work: "CPU of an update seen by 100 watchers", goal: 0.6, value: perOp(after.since(before), versusUpdates), unit: "us"}}, nil
}

// versusMemory measures what 10,000 pods and 1,000 idle watches hold.
func versusMemory(ctx context.Context, e *env, p *exec.Cmd) ([]figure, error) {
	if err := enough(ctx, e, versusPods, getPod, createPod); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := watchers(ctx, e, versusCrowd); err != nil {
		return nil, err
	}
	time.Sleep(20 * time.Second)
	u, err := measure(p)
	if err != nil {
		return nil, err
	}
	return []figure{{work: "memory with 10,000 pods and 1,000 watchers, anonymous", goal: 0.34, value: mibs(u.anon), unit: "MiB"}}, nil
}
