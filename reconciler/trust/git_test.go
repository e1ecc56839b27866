package trust

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// need skips a test where a program is not installed; ci/install-deps installs
// all of them.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed; ci/install-deps test installs it", p)
		}
	}
}

// gitRepo is a real repository, and the History of it.
type gitRepo struct {
	t    *testing.T
	dir  string
	env  []string
	time time.Time // of the next commit
	raw  map[string][]byte
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newRepo(t *testing.T) *gitRepo {
	t.Helper()
	need(t, "git", "ssh-keygen")
	r := &gitRepo{t: t, dir: t.TempDir(), time: start, raw: map[string][]byte{}}
	home := t.TempDir()
	r.env = append(os.Environ(), "HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0")
	r.git("init", "-q", "-b", "main")
	r.git("config", "gpg.format", "ssh")
	r.git("config", "commit.gpgSign", "false")
	r.git("config", "user.name", "nobody")
	r.git("config", "user.email", "nobody@example.org")
	return r
}

func (r *gitRepo) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

func (r *gitRepo) git(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (r *gitRepo) write(file, text string) {
	r.t.Helper()
	p := filepath.Join(r.dir, file)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// as runs a git command that makes a commit, by a person, signed with a key;
// "" signs nothing. Each commit is an hour later than the one before.
func (r *gitRepo) as(who, key string, args ...string) string {
	r.t.Helper()
	r.time = r.time.Add(time.Hour)
	stamp := r.time.Format(time.RFC3339)
	had := r.env
	r.env = append(r.env[:len(r.env):len(r.env)], "GIT_AUTHOR_DATE="+stamp, "GIT_COMMITTER_DATE="+stamp,
		"GIT_AUTHOR_NAME="+who, "GIT_COMMITTER_NAME="+who, "GIT_AUTHOR_EMAIL="+who+"@example.org", "GIT_COMMITTER_EMAIL="+who+"@example.org")
	defer func() { r.env = had }()
	if key != "" {
		args = append([]string{"-c", "user.signingkey=" + key}, args...)
		for i, a := range args {
			if a == "commit" || a == "merge" {
				args = append(args[:i+1:i+1], append([]string{"-S"}, args[i+1:]...)...)
				break
			}
		}
	}
	r.git(args...)
	return r.git("rev-parse", "HEAD")
}

// commit writes one file and commits it.
func (r *gitRepo) commit(who, key, file, text string) string {
	r.t.Helper()
	r.write(file, text)
	r.git("add", "-A")
	return r.as(who, key, "commit", "-q", "--allow-empty", "-m", "change "+file)
}

func (r *gitRepo) Commit(sha string) ([]byte, error) {
	if raw, ok := r.raw[sha]; ok {
		return raw, nil
	}
	out, err := r.try("cat-file", "commit", sha)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	r.raw[sha] = []byte(out)
	return r.raw[sha], nil
}

func (r *gitRepo) Changed(from, to string) ([]string, error) {
	args := []string{"diff", "--name-only", "--no-renames", "-z", from, to}
	if from == "" {
		args = []string{"ls-tree", "-r", "-z", "--name-only", to}
	}
	out, err := r.try(args...)
	return strings.FieldsFunc(out, func(c rune) bool { return c == 0 }), err
}

func (r *gitRepo) File(sha, path string) ([]byte, error) {
	if _, err := r.try("cat-file", "-e", sha+":"+path); err != nil {
		return nil, fs.ErrNotExist
	}
	out, err := r.try("cat-file", "blob", sha+":"+path)
	return []byte(out), err
}

// sshKey makes a key, and returns the file of its private half and the public
// half.
func sshKey(t *testing.T, name string, args ...string) (file, public string) {
	t.Helper()
	need(t, "ssh-keygen")
	file = filepath.Join(t.TempDir(), name)
	out, err := exec.Command("ssh-keygen", append([]string{"-q", "-N", "", "-C", name, "-f", file}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	pub, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, strings.TrimSpace(string(pub))
}

// mustParse reads a policy that is right.
func mustParse(t *testing.T, text string) *Policy {
	t.Helper()
	p, findings := Parse(File, []byte(text))
	if p == nil {
		t.Fatalf("policy: %+v\n%s", findings, text)
	}
	return p
}
