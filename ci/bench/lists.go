package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	"k8s.io/client-go/rest"
)

func lists(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, e, stored); err != nil {
		return nil, err
	}
	listed, err := timeLists(ctx, e, p)
	if err != nil {
		return nil, err
	}
	peers := []struct{ peer, goal string }{{"194 ms, 210 ms CPU", "50 ms"}, {"111 ms, 131 ms CPU", "22 ms"}, {"111 ms, 121 ms CPU", "30 ms"}}
	var rows []row
	for i, l := range listed {
		rows = append(rows, row{"P5", "LIST 5,000 pods, " + l.format, peers[i].peer, peers[i].goal, ms(l.took) + ", " + each(l.cpu, 1)})
	}
	u, err := measure(p)
	if err != nil {
		return nil, err
	}
	return append(rows, row{"P7", "memory with 5,000 pods, anonymous (RSS)", "617-692 MiB RSS with 10,000", "150 MiB with 10,000", fmt.Sprintf("%s (%s)", mib(u.anon), mib(u.rss))}), nil
}

// formats are those that lists are measured in.
var formats = []struct{ name, accept string }{
	{"JSON", "application/json"}, {"protobuf", "application/vnd.kubernetes.protobuf"}, {"Table", "application/json;as=Table;v=v1;g=meta.k8s.io"},
}

// listing is what a LIST of all pods in one format took, and used of the
// server.
type listing struct {
	format    string
	took, cpu time.Duration
}

// timeLists lists the pods some times in each of formats.
func timeLists(ctx context.Context, e *env, p *exec.Cmd) ([]listing, error) {
	cfg, err := e.config()
	if err != nil {
		return nil, err
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	var out []listing
	for _, f := range formats {
		const n = 9
		before, err := measure(p)
		if err != nil {
			return nil, err
		}
		var took []time.Duration
		for range n {
			t := time.Now()
			if err := fetch(ctx, hc, cfg.Host+"/api/v1/namespaces/default/pods", f.accept); err != nil {
				return nil, err
			}
			took = append(took, time.Since(t))
		}
		after, err := measure(p)
		if err != nil {
			return nil, err
		}
		out = append(out, listing{f.name, median(took), after.since(before) / n})
	}
	return out, nil
}

func fetch(ctx context.Context, c *http.Client, url, accept string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
