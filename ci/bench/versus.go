package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// figure is one number of one server.
type figure struct {
	work string
	// goal is the largest ratio of ours to theirs that is wanted; for rates it
	// is the smallest.
	goal  float64
	rate  bool
	value float64
	unit  string
}

// The loads of the comparison. Both servers get the same, one after the other,
// from the same clients on the same machine.
const (
	versusCreates  = 6000
	versusGets     = 20000
	versusPods     = 10000
	versusWatchers = 100
	versusUpdates  = 300
	versusCrowd    = 1000
)

// versus measures this server and upstream's side by side. upstream is the
// command that runs kube-apiserver over etcd (make conformance builds both).
func versus(ctx context.Context, bin string, upstream []string) error {
	theirs, err := measureServer(ctx, bin, upstream)
	if err != nil {
		return fmt.Errorf("measure upstream: %w", err)
	}
	ours, err := measureServer(ctx, bin, nil)
	if err != nil {
		return fmt.Errorf("measure writ: %w", err)
	}
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WORK\tWRIT\tKUBERNETES\tRATIO\tGOAL")
	for i, f := range ours {
		goal := fmt.Sprintf("<= %.2f", f.goal)
		if f.rate {
			goal = fmt.Sprintf(">= %.1f", f.goal)
		}
		fmt.Fprintf(w, "%s\t%.4g %s\t%.4g %s\t%.2f\t%s\n", f.work, f.value, f.unit, theirs[i].value, f.unit, f.value/theirs[i].value, goal)
	}
	return w.Flush()
}

// measureServer puts one server through all loads.
func measureServer(ctx context.Context, bin string, upstream []string) ([]figure, error) {
	e, err := newEnv(bin)
	if err != nil {
		return nil, err
	}
	defer e.close()
	// Upstream's server runs without controllers and scheduler; so does ours.
	e.upstream, e.flags = upstream, []string{"--api-only"}
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	e.stop(p)
	p, ready, err := e.server(ctx) // the second start finds its certificates
	if err != nil {
		return nil, err
	}
	out := []figure{{work: "exec to ready, small data directory", goal: 0.05, value: ready.Seconds() * 1000, unit: "ms"}}
	time.Sleep(15 * time.Second)
	u, err := measure(p)
	if err != nil {
		return nil, err
	}
	out = append(out, figure{work: "idle memory, anonymous", goal: 0.25, value: float64(u.anon) / (1 << 20), unit: "MiB"})
	for _, load := range []func(context.Context, *env, *exec.Cmd) ([]figure, error){versusWrite, versusRead, versusList, versusFanOut, versusMemory} {
		f, err := load(ctx, e, p)
		if err != nil {
			return nil, err
		}
		out = append(out, f...)
	}
	return out, nil
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
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	_, _, err = parallel(ctx, e, versusGets, 16, func(ctx context.Context, c *kubernetes.Clientset, i int) error {
		_, err := c.CoreV1().ConfigMaps("default").Get(ctx, fmt.Sprintf("bench-%06d", i%versusCreates), metav1.GetOptions{})
		return err
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
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	if err := account(ctx, c); err != nil {
		return nil, err
	}
	if err := fill(ctx, e, versusPods/2); err != nil {
		return nil, err
	}
	cfg, err := e.config()
	if err != nil {
		return nil, err
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	var out []figure
	for _, f := range []struct{ name, accept string }{
		{"JSON", "application/json"}, {"protobuf", "application/vnd.kubernetes.protobuf"}, {"Table", "application/json;as=Table;v=v1;g=meta.k8s.io"},
	} {
		var took []time.Duration
		for range 9 {
			t := time.Now()
			if err := fetch(ctx, hc, cfg.Host+"/api/v1/namespaces/default/pods", f.accept); err != nil {
				return nil, err
			}
			took = append(took, time.Since(t))
		}
		out = append(out, figure{work: "LIST 5,000 pods, " + f.name, goal: 0.25, value: median(took).Seconds() * 1000, unit: "ms"})
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
	_, _, err := parallel(ctx, e, versusPods/2, 16, func(ctx context.Context, c *kubernetes.Clientset, i int) error {
		return createPod(ctx, c, i+versusPods/2)
	})
	if err != nil {
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
	return []figure{{work: "memory with 10,000 pods and 1,000 watchers, anonymous", goal: 0.34, value: float64(u.anon) / (1 << 20), unit: "MiB"}}, nil
}

func perOp(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(n) }

// errNoServer says that a server did not come up.
var errNoServer = errors.New("the server is not ready after 90 s")

// awaitReady asks until the server says that it is ready.
func awaitReady(c *http.Client, began time.Time) (time.Duration, error) {
	for time.Since(began) < 90*time.Second {
		resp, err := c.Get("https://" + address + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(began), nil
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, errNoServer
}
