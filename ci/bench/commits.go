package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// commits measures push to applied through the built-in remote with stock git.
func commits(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	repo := filepath.Join(e.dir, "repo")
	if err := e.git(ctx, "", "clone", "-q", "--config", "include.path="+filepath.Join(e.data(), "pusher.gitconfig"), "https://"+address+"/git/cluster.git", repo); err != nil {
		return nil, err
	}
	const n = 4000
	if err := os.WriteFile(filepath.Join(repo, "ns.yaml"), []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: bench}\n"), 0o600); err != nil {
		return nil, err
	}
	for i := range n {
		if err := deployment(repo, i, 0); err != nil {
			return nil, err
		}
	}
	before, err := measure(p)
	if err != nil {
		return nil, err
	}
	all, err := e.pushed(ctx, repo, "Four thousand objects")
	if err != nil {
		return nil, err
	}
	loaded, err := measure(p)
	if err != nil {
		return nil, err
	}
	var few []time.Duration
	for round := 1; round <= 10; round++ {
		for i := range 10 {
			if err := deployment(repo, round*37+i, round); err != nil {
				return nil, err
			}
		}
		took, err := e.pushed(ctx, repo, fmt.Sprintf("Ten of them, round %d", round))
		if err != nil {
			return nil, err
		}
		few = append(few, took)
	}
	return []row{
		{"P14", "4,000 new objects, end of push to applied", "24-34 s, 25-35 CPU s", "4 s", fmt.Sprintf("%s, push and check included %.1f CPU s", ms(all), loaded.since(before).Seconds())},
		{"P13", "10 of 4,000 objects changed, end of push to applied", "17-22 s, 22-25 CPU s", "100 ms", ms(median(few))},
	}, nil
}

func deployment(repo string, i, round int) error {
	dir := filepath.Join(repo, fmt.Sprintf("d%02d", i%40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: d-%[1]d, namespace: bench, annotations: {round: "%[2]d"}}
spec:
  replicas: 0
  selector: {matchLabels: {app: d-%[1]d}}
  template:
    metadata: {labels: {app: d-%[1]d}}
    spec:
      containers:
        - name: main
          image: writ.local/pause:v1
          ports: [{containerPort: 8080}]
          env: [{name: A, value: b}]
          resources: {requests: {cpu: 10m, memory: 16Mi}}
`, i, round)
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("d%d.yaml", i)), []byte(text), 0o600)
}

// pushed commits and pushes, and returns the time from the end of the push to
// the commit being applied, by the server's own clock on this same machine.
func (e *env) pushed(ctx context.Context, repo, message string) (time.Duration, error) {
	if err := e.git(ctx, repo, "add", "-A"); err != nil {
		return 0, err
	}
	if err := e.git(ctx, repo, "commit", "-qm", message); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := e.git(ctx, repo, "push", "-q", "origin", "HEAD:main"); err != nil {
		return 0, err
	}
	ended := time.Now()
	fmt.Fprintf(os.Stderr, "  push itself took %v\n", ended.Sub(began).Round(time.Millisecond))
	out, err := exec.CommandContext(ctx, "git", "-C", repo, "rev-parse", "HEAD").Output()
	if err != nil {
		return 0, err
	}
	name := "cluster-" + strings.TrimSpace(string(out))[:12]
	c, err := e.client()
	if err != nil {
		return 0, err
	}
	var took time.Duration
	err = until(ctx, 2*time.Minute, func() (bool, error) {
		raw, err := c.RESTClient().Get().AbsPath("/apis/writ.dev/v1alpha1/commits/"+name).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // not there yet
		}
		var o struct {
			Status struct{ AppliedTime *time.Time }
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return false, err
		}
		if o.Status.AppliedTime == nil {
			return false, nil
		}
		took = max(0, o.Status.AppliedTime.Sub(ended))
		return true, nil
	})
	return took, err
}

func (e *env) git(ctx context.Context, repo string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = repo
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_SSL_") })
	cmd.Env = append(env, "HOME="+e.dir, "GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@example.com", "GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}
