package receive

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// strangers are signed in, and have no business with the repository.
var strangers = []*user.DefaultInfo{
	{Name: "system:serviceaccount:shop:default", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", user.AllAuthenticated}},
	{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", user.AllAuthenticated}},
	{Name: "system:node:worker", Groups: []string{user.NodesGroup, user.AllAuthenticated}},
	{Name: "stan", Groups: []string{user.AllAuthenticated}},
}

// answerTo serves a request of a user without a connection.
func answerTo(h http.Handler, u user.Info, method, path, contentType, body string) (status int, text string) {
	req, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", contentType)
	w := &answer{header: make(http.Header)}
	h.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), u)))
	return w.status, w.String()
}

const wantPath, refsPath = "/git/cluster.git/git-upload-pack", "/git/cluster.git/info/refs?service=git-upload-pack"

func wanting(sha string) string { return pkt("want "+sha+" no-progress\n") + "0000" + pkt("done\n") }

// A pod's token, one by which a machine joins, a node and who is merely signed in
// read nothing, neither at the door nor behind it.
func TestStrangersFetchNothing(t *testing.T) {
	everybody := func(string) []Rule {
		return []Rule{{Users: []string{"*"}, Refs: []string{"refs/heads/try/*"}}, {Users: []string{"ann"}, Refs: []string{"refs/heads/ann"}}}
	}
	for name, rules := range map[string]func(string) []Rule{"without rules": nil, "everybody pushes": everybody} {
		t.Run(name, func(t *testing.T) {
			s, clone := seeded(t)
			s.cfg.Rules = rules
			head := git(t, clone, "rev-parse", "HEAD")
			for _, u := range strangers {
				if status, text := answerTo(s.Remote, u, http.MethodGet, refsPath, "", ""); status != http.StatusForbidden || strings.Contains(text, head) {
					t.Errorf("%s lists refs: %d %q", u.Name, status, text)
				}
				if status, text := answerTo(s.Remote, u, http.MethodPost, wantPath, "application/x-git-upload-pack-request", wanting(head)); status != http.StatusForbidden || strings.Contains(text, "PACK") {
					t.Errorf("%s fetches: %d %.60q", u.Name, status, text)
				}
			}
			if rules == nil {
				return
			}
			if status, text := answerTo(s.Remote, &user.DefaultInfo{Name: "ann"}, http.MethodGet, refsPath, "", ""); status != http.StatusOK || !strings.Contains(text, head) {
				t.Errorf("ann, who may push, lists refs: %d %q", status, text)
			}
		})
	}
}

// Who may fetch is for whoever runs the remote to say, for each request.
func TestMayFetchDecides(t *testing.T) {
	s, _ := seeded(t, func(c *Config) {
		c.MayFetch = func(_ context.Context, repository string, u user.Info) bool {
			return repository == "cluster" && u.GetName() == "stan"
		}
	})
	for who, want := range map[*user.DefaultInfo]int{
		{Name: "stan"}: http.StatusOK,
		{Name: "vera", Groups: []string{"writ:viewers"}}:             http.StatusForbidden,
		{Name: "push", Groups: []string{"writ:pushers"}}:             http.StatusOK, // what cannot be fetched cannot be pushed to
		{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}: http.StatusOK,
	} {
		if status, text := answerTo(s.Remote, who, http.MethodGet, refsPath, "", ""); status != want {
			t.Errorf("%s: %d, want %d: %s", who.Name, status, want, text)
		}
	}
}

// What no ref leads to stays unread, whoever knows its name: a commit that was
// rewritten away, its files, one that was refused, one that is being checked. Other
// servers of the cluster may ask for anything.
func TestOnlyWhatRefsLeadToIsSent(t *testing.T) {
	s, clone := seeded(t)
	history(t, clone, 0, 2)
	older := git(t, clone, "rev-parse", "HEAD~1")
	write(t, clone, map[string]string{"password": "hunter2\n"})
	gone := commit(t, clone, "Oops")
	blob, tree := git(t, clone, "rev-parse", "HEAD:password"), git(t, clone, "rev-parse", "HEAD^{tree}")
	git(t, clone, "push", "-q", "origin", "HEAD:refs/heads/topic")
	git(t, clone, "tag", "-a", "-m", "x", "v1", "HEAD~1")
	git(t, clone, "push", "-q", "origin", "v1")
	git(t, clone, "reset", "-q", "--hard", "HEAD~1")
	git(t, clone, "push", "-q", "-f", "origin", "HEAD:refs/heads/topic")
	if !s.has(t, gone) {
		t.Fatal("the commit is gone from the disk: the test shows nothing")
	}

	viewer := &user.DefaultInfo{Name: "viewer", Groups: []string{"writ:viewers"}}
	fetch := func(h http.Handler, sha, depth string) string {
		_, text := answerTo(h, viewer, http.MethodPost, wantPath, "application/x-git-upload-pack-request",
			pkt("want "+sha+" no-progress\n")+depth+"0000"+pkt("done\n"))
		return text
	}
	var quarantined string
	s.checkWith(func(_ context.Context, p Push) ([]string, error) {
		quarantined = fetch(s.Remote, p.New, "")
		return nil, os.ErrPermission
	})
	write(t, clone, map[string]string{"password": "hunter3\n"})
	refused := commit(t, clone, "Refused")
	if out, err := tryGit(t, clone, "push", "-q", "origin", "HEAD:refs/heads/other"); err == nil {
		t.Fatalf("pushed: %s", out)
	}
	if strings.Contains(quarantined, "PACK") || !strings.Contains(quarantined, notOurs) {
		t.Errorf("while it is checked: %.80q", quarantined)
	}
	for name, sha := range map[string]string{"rewritten": gone, "its file": blob, "its folder": tree, "refused": refused, "a file of the branch": git(t, clone, "rev-parse", "HEAD:README.md")} {
		for _, depth := range []string{"", pkt("deepen 1\n")} {
			if got := fetch(s.Remote, sha, depth); strings.Contains(got, "PACK") || !strings.Contains(got, "ERR upload-pack: "+notOurs) {
				t.Errorf("%s is sent: %.80q", name, got)
			}
		}
	}
	for name, sha := range map[string]string{"the head": git(t, clone, "rev-parse", "origin/main"), "a commit before it": older, "a tag": git(t, clone, "rev-parse", "v1"), "its commit": git(t, clone, "rev-parse", "v1^{}")} {
		if got := fetch(s.Remote, sha, ""); !strings.Contains(got, "PACK") {
			t.Errorf("%s is not sent: %.80q", name, got)
		}
	}
	if got := fetch(s.Replica(), gone, ""); !strings.Contains(got, "PACK") {
		t.Errorf("another server does not get %s: %.80q", gone, got)
	}
}

// A shallow client deepens along what refs lead to and nowhere else.
func TestUnshallowStaysWithinRefs(t *testing.T) {
	s, clone := seeded(t)
	history(t, clone, 0, 3)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, clone, "clone", "-q", "--depth", "1", s.as("viewer"), shallow)
	git(t, shallow, "fetch", "-q", "--unshallow")
	if got := git(t, shallow, "rev-list", "--count", "HEAD"); got != "4" {
		t.Errorf("%s commits", got)
	}
}
