package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// standIn is a journalctl that knows the units a and lost, prints its arguments,
// and while it follows says who it is.
const standIn = `#!/bin/sh
case "$*" in
--field=_SYSTEMD_UNIT) echo init.scope; echo a.service;;
--field=UNIT) echo lost.service; echo a.service; echo var.mount;;
*--follow*) echo $$; exec sleep 1000;;
*) echo "$*"; exit 1;;
esac
`

func newStandIn(t *testing.T) *testNode {
	t.Helper()
	dir := t.TempDir()
	logs := filepath.Join(dir, "logs")
	for name, text := range map[string]string{"web/web.log": "deep\n", "db.log": "base\n", "plain": "words\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(logs, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(logs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte(standIn), 0o700); err != nil {
		t.Fatal(err)
	}
	return &testNode{rest: serve(t, Config{Pods: one{pod: podWith()}, Journal: &Journal{Command: []string{filepath.Join(dir, "journalctl")}, Dir: logs}})}
}

func TestNodeLogs(t *testing.T) {
	n := newStandIn(t)
	const base = "--utc --no-pager --output=short-precise "
	for _, c := range []struct {
		path string
		code int
		text string
	}{
		{"/logs/", 200, "kernel\na\nlost\n"},
		{"/logs/?query=a", 200, base + "--unit=a.service\n"},
		{"/logs/?query=a.service&query=lost", 200, base + "--unit=a.service --unit=lost.service\n"},
		{"/logs/?query=kernel&tailLines=3", 200, base + "--lines=3 _TRANSPORT=kernel\n"},
		{"/logs/?query=a&query=none", 200, base + "--unit=a.service\n\nlog not found for none\n"},
		{"/logs/?query=none&tailLines=3", 200, "\nlog not found for none\n"},
		{"/logs/?query=var.mount", 200, "\nlog not found for var.mount\n"},
		{"/logs/?query=web", 200, "deep\n"},
		{"/logs/?query=db", 200, "base\n"},
		{"/logs/?query=plain", 200, "words\n"},
		{"/logs/?query=/web/web.log", 200, "deep\n"},
		{"/logs/?query=web&tailLines=3", 200, "\noptions present and query resolved to log files for [web]\ntry without specifying options\n"},
		{"/logs/?query=", 400, "query: Invalid value: [\"\"]: may not be empty\n"},
		{"/logs/?tailLines=3", 406, "query: Required value: cannot be empty with options\n"},
		{"/logs/db.log?query=a", 406, "path not allowed in query mode\n"},
	} {
		code, text := n.ask(t, http.MethodGet, c.path)
		if code != c.code || text != c.text {
			t.Errorf("GET %s: %d %q, want %d %q", c.path, code, text, c.code, c.text)
		}
	}
	if code, text := n.ask(t, http.MethodGet, "/logs/db.log"); code != 404 || !strings.Contains(text, "logs/?query=/<name>") {
		t.Errorf("a file as a path: %d %s", code, text)
	}
	if code, _ := n.ask(t, http.MethodPost, "/logs/?query=a"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
	res := n.open(t, "/logs/?query=a&query=none&query=web")
	if got := res.Header.Values(notFoundHeader); !slices.Equal(got, []string{"none"}) {
		t.Errorf("not found: %q", got)
	}
	stranger := *n.rest
	stranger.CertData, stranger.KeyData = nil, nil
	if code, text := (&testNode{rest: &stranger}).ask(t, http.MethodGet, "/logs/?query=a"); code != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d %s", code, text)
	}
}

// A query that follows ends with its client, and only so many run at once.
func TestNodeLogsFollowed(t *testing.T) {
	n := newStandIn(t)
	var open []*http.Response
	var programs []int
	for range maxQueries {
		res := n.open(t, "/logs/?query=a&follow=true")
		var pid int
		if _, err := fmt.Fscan(res.Body, &pid); err != nil {
			t.Fatal(err)
		}
		open, programs = append(open, res), append(programs, pid)
	}
	if code, text := n.ask(t, http.MethodGet, "/logs/"); code != http.StatusTooManyRequests {
		t.Errorf("one query too many: %d %s", code, text)
	}
	for _, res := range open {
		res.Body.Close()
	}
	for _, pid := range programs {
		eventually(t, fmt.Sprintf("program %d has ended", pid), func() bool { return syscall.Kill(pid, 0) != nil })
	}
	eventually(t, "there is room again", func() bool {
		code, _ := n.ask(t, http.MethodGet, "/logs/")
		return code == http.StatusOK
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("not so after 10 s: " + what)
}

// open begins a request, whose answer ends with the test.
func (n *testNode) open(t *testing.T, path string) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(n.rest)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.rest.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		res.Body.Close()
		client.CloseIdleConnections()
	})
	return res
}

// journald is the real one, with sockets and a journal of its own, in a mount
// namespace. What is said to it is said by a process of writ-test.service.
const journald = `set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/log/journal /run/systemd/journald.conf.d
mount --bind "$1" /run/log/journal
printf '[Journal]\nAudit=no\nStorage=volatile\nRateLimitBurst=0\n' >/run/systemd/journald.conf.d/test.conf
/usr/lib/systemd/systemd-journald 2>/dev/null &
while [ ! -S /run/systemd/journal/stdout ]; do sleep 0.05; done
for g in $2; do mkdir -p "$g" && echo $$ >"$g/cgroup.procs"; done
cat | systemd-cat -t test || true
kill $! || true
wait
`

// newJournald returns where to say something, and the directory it is kept in.
func newJournald(t *testing.T) (io.Writer, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	for _, bin := range []string{"/usr/lib/systemd/systemd-journald", "journalctl", "systemd-cat", "mount"} {
		if _, err := exec.LookPath(bin); err != nil {
			t.Skip(bin + " is not installed")
		}
	}
	var groups []string
	for _, g := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(g + "/cgroup.procs"); err == nil {
			groups = append(groups, g+"/system.slice/writ-test.service")
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", journald, "journald", dir, strings.Join(groups, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		for _, g := range groups {
			if err := os.Remove(g); err != nil {
				t.Error(err)
			}
			_ = os.Remove(filepath.Dir(g)) // another's, if it is not empty
		}
	})
	return in, dir
}

func TestJournal(t *testing.T) {
	in, dir := newJournald(t)
	n := &testNode{rest: serve(t, Config{Pods: one{pod: podWith()}, Journal: &Journal{Command: []string{"journalctl", "--directory=" + dir}, Dir: t.TempDir()}})}
	say := func(text string) {
		if _, err := io.WriteString(in, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	get := func(query string) string {
		t.Helper()
		code, text := n.ask(t, http.MethodGet, "/logs/?query="+query)
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", query, code, text)
		}
		return text
	}
	before := time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)
	say("first word")
	say("second word")
	eventually(t, "both words are there", func() bool { return strings.Contains(get("writ-test"), "second word") })
	if got := get("writ-test"); strings.Count(got, "test[") != 2 {
		t.Errorf("all: %s", got)
	}
	for query, want := range map[string]string{
		"writ-test&tailLines=1":                        "second",
		"writ-test.service&pattern=^fi":                "first",
		"writ-test&tailLines=0":                        "",
		"writ-test&boot=0&tailLines=1":                 "second",
		"writ-test&pattern=second&sinceTime=" + before: "second",
		"writ-test&untilTime=" + before:                "",
		"writ-test&sinceTime=2100-01-01T00:00:00Z":     "",
	} {
		got := get(query)
		if strings.Contains(got, "first") != (want == "first") || strings.Contains(got, "second") != (want == "second") {
			t.Errorf("%s: %s", query, got)
		}
	}
	if got := get("kernel"); strings.Contains(got, "word") || !strings.Contains(got, "kernel: ") {
		t.Errorf("the kernel says: %.300s", got)
	}
	if _, text := n.ask(t, http.MethodGet, "/logs/"); !strings.Contains(text, "kernel\n") || !strings.Contains(text, "\nwrit-test\n") {
		t.Errorf("units: %s", text)
	}
	res := n.open(t, "/logs/?query=writ-test&tailLines=1&follow=true")
	lines := bufio.NewScanner(res.Body)
	for _, want := range []string{"second word", "third word"} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("followed %q, want %s", lines.Text(), want)
		}
		if want == "second word" {
			say("third word")
		}
	}
}
