package notify

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/forge"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/reconciler/webhook"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// told waits until all receivers were told a state, as the Commit notes it.
func told(t *testing.T, c *client.Fake, name string, p v1alpha1.CommitPhase, receivers ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{}, 1)
	watch := func(ev client.Event) {
		commit, ok := ev.Object.(*v1alpha1.Commit)
		if !ok || commit.Name != name {
			return
		}
		for _, r := range receivers {
			if toldOf(commit, r).Phase != p {
				return
			}
		}
		select {
		case done <- struct{}{}:
		default:
		}
	}
	if err := c.Cache().Subscribe(ctx, schema.ResourceFor[*v1alpha1.Commit](), watch); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-ctx.Done():
		live, _ := client.Cached[*v1alpha1.Commit](c.Cache(), schema.Key{Name: name})
		t.Fatalf("not told %s: %v", p, live.Annotations)
	}
}

// The statuses that the forges show, over real HTTP, with failures between.
func TestForges(t *testing.T) {
	f := forge.New(forge.Config{Dir: t.TempDir(), Repositories: []string{"acme/infra"}, Tokens: map[string]string{"t0ken": "ann"}})
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(f)
	t.Cleanup(ts.Close)
	work := t.TempDir()
	git(t, work, "init", "-q", "-b", "main")
	git(t, work, "commit", "-q", "--allow-empty", "-m", "One")
	git(t, work, "push", "-q", strings.Replace(ts.URL, "://", "://ann:t0ken@", 1)+"/acme/infra.git", "main")

	urls := map[string]string{"github": "/repos/acme/infra", "gitlab": "/acme/infra", "gitea": "/acme/infra.git"}
	var notifications []v1alpha1.Notification
	var names []string
	for kind, path := range urls {
		notifications = append(notifications, v1alpha1.Notification{Name: kind, Type: kind, URL: ts.URL + path, Secret: "default/forge"})
		names = append(names, kind)
	}
	c := client.NewFake(repository(notifications...), secret("default", "forge", map[string]string{"token": "t0ken"}))
	defer running(t, c, nil, func(cfg *Config) {
		cfg.Cluster, cfg.Page = "prod", func(c *v1alpha1.Commit) string { return "https://writ.example.org/commits/" + c.Name }
	})()

	x := commit(1, applied)
	x.Spec.SHA = git(t, work, "rev-parse", "HEAD")
	x.Name = report.CommitName("shop", x.Spec.SHA)
	x.Status.Message = "3 objects not healthy yet"
	f.Fail(forge.Failure{Status: http.StatusBadGateway}, forge.Failure{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"0.1"}}})
	c.Put(x)
	told(t, c, x.Name, applied, names...)
	x = x.DeepCopy()
	x.Status.Phase, x.Status.Message = healthy, "all 3 objects are healthy"
	move(t, c, x)
	told(t, c, x.Name, healthy, names...)

	got := map[webhook.Provider][]string{}
	for _, s := range f.Statuses("acme/infra", x.Spec.SHA) {
		got[s.Provider] = append(got[s.Provider], s.State)
		if s.Context != "writ/prod/shop" || s.TargetURL != "https://writ.example.org/commits/"+x.Name || s.User != "ann" {
			t.Errorf("%+v", s)
		}
		if want := map[bool]string{true: "all 3 objects are healthy", false: "3 objects not healthy yet"}[s.State == "success"]; s.Description != want {
			t.Errorf("%s %s: %q", s.Provider, s.State, s.Description)
		}
	}
	for p, want := range map[webhook.Provider]string{webhook.GitHub: "pending success", webhook.GitLab: "running success", webhook.Gitea: "pending success"} {
		if s := strings.Join(got[p], " "); s != want {
			t.Errorf("%s has %q, want %q", p, s, want)
		}
	}
}
