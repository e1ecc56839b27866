package notify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func isForge(kind string) bool { return kind == "github" || kind == "gitlab" || kind == "gitea" }

// maxDescription is how long GitHub lets the description of a status be.
const maxDescription = 140

// forgeStatus is the body of a commit status, of all three.
type forgeStatus struct {
	State       string `json:"state"`
	TargetURL   string `json:"target_url,omitempty"`
	Description string `json:"description"`
	Context     string `json:"context"`
	Name        string `json:"name,omitempty"` // GitLab's word for context
}

// forgeCall sets the status of a commit:
//
//	GitHub  POST /repos/{owner}/{repo}/statuses/{sha}
//	GitLab  POST /api/v4/projects/{id}/statuses/{sha}
//	Gitea   POST /api/v1/repos/{owner}/{repo}/statuses/{sha}
func forgeCall(m *Message, kind string, t target) (call, error) {
	if t.token == "" {
		return call{}, fmt.Errorf("%s takes a status only from who signs in; name a Secret with the key %q", kind, tokenKey)
	}
	api, err := statusURL(kind, t.url, m.Commit.Spec.SHA)
	if err != nil {
		return call{}, err
	}
	s := forgeStatus{State: state(kind, m.Mark.Phase), TargetURL: t.page, Description: describe(m),
		Context: "writ/" + where(t.cluster, m.Commit.Spec.Repository)}
	h := http.Header{}
	switch kind {
	case "github":
		h.Set("Authorization", "Bearer "+t.token)
		h.Set("Accept", "application/vnd.github+json")
		h.Set("X-GitHub-Api-Version", "2022-11-28")
	case "gitlab":
		h.Set("Private-Token", t.token)
		s.Name = s.Context
	case "gitea":
		h.Set("Authorization", "token "+t.token)
	}
	body, err := json.Marshal(s)
	if err != nil {
		return call{}, fmt.Errorf("encode status: %w", err)
	}
	return call{url: api, header: h, body: body}, nil
}

// statusURL is where to post the status of a commit. address is that of the
// repository, as a browser shows it, or of its API.
func statusURL(kind, address, sha string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errNoURL
	}
	path := strings.TrimSuffix(strings.Trim(u.EscapedPath(), "/"), ".git")
	base := u.Scheme + "://" + u.Host
	if kind == "github" && u.Host == "github.com" {
		base = "https://api.github.com"
	}
	before, rest, isAPI := cutAPI(kind, u.Host, path)
	switch {
	case isAPI:
		base += before
	case kind == "github" && u.Host != "github.com":
		base += "/api/v3/repos/"
	default:
		base += map[string]string{"github": "/repos/", "gitlab": "/api/v4/projects/", "gitea": "/api/v1/repos/"}[kind]
	}
	parts := strings.Split(rest, "/")
	switch {
	case kind == "gitlab" && !isAPI && len(parts) < 2, kind != "gitlab" && len(parts) != 2, rest == "":
		return "", fmt.Errorf("the URL does not name a repository; write https://%s/OWNER/REPOSITORY", u.Host)
	case kind == "gitlab":
		rest = strings.ReplaceAll(rest, "/", "%2F")
	}
	return base + rest + "/statuses/" + url.PathEscape(sha), nil
}

// cutAPI takes the path of an API apart: what leads to repositories, and the
// repository.
func cutAPI(kind, host, path string) (before, repository string, ok bool) {
	path = "/" + path
	marks := map[string][]string{"github": {"/api/v3/repos/"}, "gitlab": {"/api/v4/projects/"}, "gitea": {"/api/v1/repos/"}}[kind]
	if kind == "github" && strings.HasPrefix(path, "/repos/") && (host == "api.github.com" || strings.Count(path, "/") == 3) {
		marks = []string{"/repos/"}
	}
	for _, mark := range marks {
		if b, r, found := strings.Cut(path, mark); found {
			return b + mark, r, true
		}
	}
	return "", strings.TrimPrefix(path, "/"), false
}

// state is a phase in the forge's words. A commit that was superseded did not
// fail and was never shown to work: GitLab has a word for that, for the others
// it is the one that says "no verdict".
func state(kind string, p v1alpha1.CommitPhase) string {
	gitlab := kind == "gitlab"
	switch p {
	case v1alpha1.CommitApplied:
		if gitlab {
			return "running"
		}
	case v1alpha1.CommitHealthy:
		return "success"
	case v1alpha1.CommitFailed:
		if gitlab {
			return "failed"
		}
		return "failure"
	case v1alpha1.CommitSuperseded:
		if gitlab {
			return "canceled"
		}
		return "error"
	}
	return "pending"
}

// describe says in a line how the commit is.
func describe(m *Message) string {
	s := &m.Commit.Status
	text := s.Message
	switch {
	case m.Mark.Phase == v1alpha1.CommitFailed && len(s.Findings) > 0:
		text = report.FindingText(s.Findings[0])
		if more := len(s.Findings) - 1; more > 0 {
			end := fmt.Sprintf(" (+%d)", more)
			return cutRunes(line(text), maxDescription-len(end)) + end
		}
	case text == "":
		text = headline(m.Mark)
	}
	return cutRunes(line(text), maxDescription)
}

func line(s string) string { return strings.Join(strings.Fields(s), " ") }

func cutRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// cut shortens a text to n bytes and ends it so that one sees it.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}
