package forge

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/reconciler/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// started is a forge with a repository acme/infra that has one commit.
func started(t *testing.T) (f *Forge, url, work, sha string) {
	t.Helper()
	f = New(Config{Dir: t.TempDir(), Repositories: []string{"acme/infra"}, Tokens: map[string]string{"t0ken": "ann"}})
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(f)
	t.Cleanup(func() { f.Deliveries(); ts.Close(); http.DefaultClient.CloseIdleConnections() })
	work = t.TempDir()
	git(t, work, "init", "-q", "-b", "main")
	git(t, work, "commit", "-q", "--allow-empty", "-m", "One")
	git(t, work, "remote", "add", "origin", strings.Replace(ts.URL, "://", "://ann:t0ken@", 1)+"/acme/infra.git")
	git(t, work, "push", "-q", "origin", "main")
	return f, ts.URL, work, git(t, work, "rev-parse", "HEAD")
}

// The webhooks of every provider wake the receiver, once for each push to the
// branch.
func TestWebhooks(t *testing.T) {
	f, _, work, _ := started(t)
	var mu sync.Mutex
	woken := map[string]int{}
	hooks := map[string]webhook.Hook{}
	receiver := httptest.NewServer(webhook.New(webhook.Config{
		Lookup: func(name string) (webhook.Hook, bool) { h, ok := hooks[name]; return h, ok },
		Notify: func(name string) { mu.Lock(); defer mu.Unlock(); woken[name]++ },
	}))
	t.Cleanup(receiver.Close)
	for _, p := range []webhook.Provider{webhook.GitHub, webhook.GitLab, webhook.Gitea, webhook.Bitbucket, webhook.Generic, "signed"} {
		h := Hook{Repository: "acme/infra", URL: receiver.URL + "/hooks/" + string(p), Provider: p, Secret: "s3cret"}
		if p == "signed" {
			h.Provider, h.Sign = webhook.GitLab, true
		}
		hooks[string(p)] = webhook.Hook{Provider: h.Provider, Secret: []byte("s3cret"), Refs: []string{"refs/heads/main"}}
		f.Hook(h)
	}
	git(t, work, "commit", "-q", "--allow-empty", "-m", "Two")
	git(t, work, "push", "-q", "origin", "main", "main:other")
	var accepted, ignored int
	for _, d := range f.Deliveries() {
		switch d.Status {
		case http.StatusAccepted:
			accepted++
			if again := Send(http.DefaultClient, d.Hook, d.Header, d.Body); again.Status != http.StatusOK && d.Hook.Provider != webhook.Generic || !strings.Contains(again.Answer, "heard before") {
				t.Errorf("%s again: %d %s", d.Hook.Provider, again.Status, again.Answer)
			}
		case http.StatusOK:
			ignored++
		default:
			t.Errorf("%s: %d %s", d.Hook.Provider, d.Status, d.Answer)
		}
	}
	if accepted != len(hooks) || ignored != len(hooks) || len(woken) != len(hooks) {
		t.Errorf("%d accepted, %d ignored, woken %v", accepted, ignored, woken)
	}
}

func TestStatuses(t *testing.T) {
	f, url, _, sha := started(t)
	post := func(path, token, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	gitHub, gitLab, gitea := "/repos/acme/infra/statuses/", "/api/v4/projects/acme%2Finfra/statuses/", "/api/v1/repos/acme/infra/statuses/"
	none := strings.Repeat("1", 40)
	for _, tt := range []struct {
		path, token, body string
		want              int
	}{
		{gitHub + sha, "t0ken", `{"state":"pending","context":"writ"}`, 201},
		{gitHub + sha, "t0ken", `{"state":"pending","context":"writ"}`, 201},
		{gitHub + sha, "t0ken", `{"state":"running"}`, 422},
		{gitHub + sha, "t0ken", `{"state":"success","description":"` + strings.Repeat("x", 141) + `"}`, 422},
		{gitHub + sha, "t0ken", `{`, 400},
		{gitHub + sha, "wrong", `{"state":"success"}`, 401},
		{gitHub + none, "t0ken", `{"state":"success"}`, 422},
		{"/repos/acme/other/statuses/" + sha, "t0ken", `{"state":"success"}`, 404},
		{gitLab + sha, "t0ken", `{"state":"running","name":"writ"}`, 201},
		{gitLab + sha, "t0ken", `{"state":"running","name":"writ"}`, 400},
		{gitLab + sha, "t0ken", `{"state":"success","name":"writ"}`, 201},
		{gitLab + sha, "t0ken", `{"state":"failure"}`, 400},
		{gitLab + none, "t0ken", `{"state":"success"}`, 404},
		{gitea + sha, "t0ken", `{"state":"warning","context":"writ"}`, 201},
		{gitea + none, "t0ken", `{"state":"success"}`, 404},
	} {
		if got := post(tt.path, tt.token, tt.body); got != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.path, tt.body, got, tt.want)
		}
	}
	if got := f.Statuses("acme/infra", sha); len(got) != 5 || got[3].State != "success" || got[3].Context != "writ" || got[3].User != "ann" {
		t.Errorf("%+v", got)
	}
	f.Fail(RateLimit(webhook.GitHub, time.Minute, time.Now()), RateLimit(webhook.GitLab, time.Minute, time.Now()), Failure{Status: 502})
	for _, want := range []int{403, 429, 502, 201} {
		if got := post(gitHub+sha, "t0ken", `{"state":"success"}`); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}
