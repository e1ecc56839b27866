package forge

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/writ-os/writ/reconciler/webhook"
)

// Status is a commit status that was set.
type Status struct {
	Provider    webhook.Provider
	Repository  string
	SHA         string
	State       string
	Context     string // "name" at GitLab
	Description string
	TargetURL   string
	User        string
}

// Statuses are those of a commit, in the order in which they were set; of all
// commits with sha "".
func (f *Forge) Statuses(repository, sha string) []Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Status
	for _, s := range f.statuses {
		if s.Repository == repository && (sha == "" || s.SHA == sha) {
			out = append(out, s)
		}
	}
	return out
}

// dialect is what differs between the providers.
type dialect struct {
	provider    webhook.Provider
	states      []string
	description int // longest
	invalid     int // status of a request that is wrong
	unknown     int // status of a commit that is not there
}

var dialects = map[webhook.Provider]dialect{
	webhook.GitHub: {webhook.GitHub, []string{"error", "failure", "pending", "success"}, 140, http.StatusUnprocessableEntity, http.StatusUnprocessableEntity},
	webhook.GitLab: {webhook.GitLab, []string{"pending", "running", "success", "failed", "canceled", "skipped"}, 255, http.StatusBadRequest, http.StatusNotFound},
	webhook.Gitea:  {webhook.Gitea, []string{"pending", "success", "error", "failure", "warning"}, 1 << 16, http.StatusUnprocessableEntity, http.StatusNotFound},
}

// target takes apart the path of a status request.
func target(path string) (d dialect, repository, sha string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, p := range parts {
		parts[i], _ = url.PathUnescape(p)
	}
	switch {
	case len(parts) == 5 && parts[0] == "repos" && parts[3] == "statuses":
		return dialects[webhook.GitHub], parts[1] + "/" + parts[2], parts[4], true
	case len(parts) == 7 && parts[1] == "v1" && parts[2] == "repos" && parts[5] == "statuses":
		return dialects[webhook.Gitea], parts[3] + "/" + parts[4], parts[6], true
	case len(parts) == 6 && parts[1] == "v4" && parts[2] == "projects" && parts[4] == "statuses":
		return dialects[webhook.GitLab], parts[3], parts[5], true
	}
	return d, "", "", false
}

// api serves the status API.
func (f *Forge) api(w http.ResponseWriter, req *http.Request, who string) {
	if fail, ok := f.nextFailure(); ok {
		if fail.Hang {
			<-req.Context().Done()
			return
		}
		maps.Copy(w.Header(), fail.Header)
		w.WriteHeader(fail.Status)
		_, _ = io.WriteString(w, fail.Body)
		return
	}
	d, repository, sha, ok := target(req.URL.EscapedPath())
	switch {
	case !ok:
		answer(w, http.StatusNotFound, "Not Found")
	case req.Method != http.MethodPost:
		answer(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	case who == "":
		answer(w, http.StatusUnauthorized, map[webhook.Provider]string{webhook.GitHub: "Bad credentials", webhook.GitLab: "401 Unauthorized", webhook.Gitea: "token is required"}[d.provider])
	case !slices.Contains(f.cfg.Repositories, repository):
		answer(w, http.StatusNotFound, map[webhook.Provider]string{webhook.GitHub: "Not Found", webhook.GitLab: "404 Project Not Found", webhook.Gitea: "The target couldn't be found."}[d.provider])
	case !f.has(repository, sha):
		answer(w, d.unknown, map[webhook.Provider]string{webhook.GitHub: "No commit found for SHA: " + sha, webhook.GitLab: "404 Commit Not Found", webhook.Gitea: "object does not exist [id: " + sha + "]"}[d.provider])
	default:
		f.set(w, req, d, Status{Provider: d.provider, Repository: repository, SHA: sha, User: who})
	}
}

func (f *Forge) nextFailure() (Failure, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.failures) == 0 {
		return Failure{}, false
	}
	next := f.failures[0]
	f.failures = f.failures[1:]
	return next, true
}

// set sets a status.
func (f *Forge) set(w http.ResponseWriter, req *http.Request, d dialect, s Status) {
	in, err := fields(req)
	if err != nil {
		answer(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	s.State, s.Description, s.TargetURL, s.Context = in["state"], in["description"], in["target_url"], in["context"]
	if d.provider == webhook.GitLab && in["name"] != "" {
		s.Context = in["name"]
	}
	if s.Context == "" {
		s.Context = "default"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !slices.Contains(d.states, s.State):
		answer(w, d.invalid, fmt.Sprintf("Validation Failed: state %q is not one of %s", s.State, strings.Join(d.states, ", ")))
		return
	case len([]rune(s.Description)) > d.description:
		answer(w, d.invalid, fmt.Sprintf("Validation Failed: description is too long (maximum is %d characters)", d.description))
		return
	case d.provider == webhook.GitLab && f.last(s) == s.State && (s.State == "pending" || s.State == "running"):
		// GitLab's statuses are jobs, which do not begin twice.
		answer(w, http.StatusBadRequest, fmt.Sprintf("Cannot transition status via :%s from :%s", map[string]string{"pending": "enqueue", "running": "run"}[s.State], s.State))
		return
	}
	f.statuses = append(f.statuses, s)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"id": len(f.statuses), "state": s.State, "status": s.State, "context": s.Context, "name": s.Context,
		"description": s.Description, "target_url": s.TargetURL, "sha": s.SHA}) // the client is gone when this fails
}

// last is the state of a status before; f.mu is held.
func (f *Forge) last(s Status) string {
	for _, old := range slices.Backward(f.statuses) {
		if old.Repository == s.Repository && old.SHA == s.SHA && old.Context == s.Context {
			return old.State
		}
	}
	return ""
}

// fields reads a body, as JSON or as a form, and the query.
func fields(req *http.Request) (map[string]string, error) {
	out := make(map[string]string)
	for k, v := range req.URL.Query() {
		out[k] = v[0]
	}
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if kind == "application/x-www-form-urlencoded" {
		if err := req.ParseForm(); err != nil {
			return nil, err
		}
		for k, v := range req.PostForm {
			out[k] = v[0]
		}
		return out, nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil || len(body) == 0 {
		return out, err
	}
	var in map[string]any
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	for k, v := range in {
		if text, ok := v.(string); ok {
			out[k] = text
		}
	}
	return out, nil
}

// has says whether a repository has a commit.
func (f *Forge) has(repository, sha string) bool {
	if !plumbing.IsHash(sha) {
		return false
	}
	dir := f.Dir(repository)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	st := filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRUDefault())
	defer st.Close()
	_, err := st.EncodedObject(plumbing.CommitObject, plumbing.NewHash(sha))
	return err == nil
}

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message}) // the client is gone when this fails
}
