package receive

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// pkt is one packet.
func pkt(payload string) string { return fmt.Sprintf("%04x%s", len(payload)+4, payload) }

// gitBytes runs git with an input and returns its output as it is.
func gitBytes(t *testing.T, dir, input string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// do sends a request as a user and returns status and body.
func do(t *testing.T, s *server, method, who, path string, body io.Reader, header map[string]string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if who != "" {
		req.SetBasicAuth(who, "token")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

// post sends a body to a service and expects an answer of the protocol.
func post(t *testing.T, s *server, service, body string, header map[string]string) string {
	t.Helper()
	h := map[string]string{"Content-Type": "application/x-" + service + "-request"}
	for k, v := range header {
		h[k] = v
	}
	res, got := do(t, s, http.MethodPost, "pusher", "/git/cluster.git/"+service, strings.NewReader(body), h)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", res.Status, got)
	}
	return got
}

func TestWhoMay(t *testing.T) {
	s := newServer(t)
	tests := []struct {
		method, who, path string
		status            int
		text              string
	}{
		{"GET", "", "/git/cluster.git/info/refs?service=git-upload-pack", 401, "sign in"},
		{"GET", "stranger", "/git/cluster.git/info/refs?service=git-upload-pack", 401, "sign in"},
		{"GET", "stranger", "/git/other.git/info/refs?service=git-upload-pack", 401, "sign in"},
		{"GET", "viewer", "/git/cluster.git/info/refs?service=git-upload-pack", 200, "side-band-64k"},
		{"GET", "viewer", "/git/cluster.git/info/refs?service=git-receive-pack", 403, `user "viewer" may clone and fetch but not push`},
		{"POST", "viewer", "/git/cluster.git/git-receive-pack", 403, "not push"},
		{"GET", "pusher", "/git/cluster.git/info/refs?service=git-receive-pack", 200, "report-status"},
		{"GET", "admin", "/git/cluster.git/info/refs?service=git-receive-pack", 200, "report-status"},
		{"GET", "viewer", "/git/other.git/info/refs?service=git-upload-pack", 404, `no repository "other" here; this cluster serves: cluster`},
		{"GET", "viewer", "/git/../etc.git/info/refs?service=git-upload-pack", 404, "no repository"},
		{"GET", "viewer", "/git/cluster.git/info/refs", 403, "smart HTTP"},
		{"GET", "viewer", "/git/cluster.git/HEAD", 404, "no such Git service"},
		{"GET", "viewer", "/git/cluster.git/info/refs?service=git-upload-archive", 404, "no such Git service"},
		{"GET", "viewer", "/git/cluster.git/git-upload-pack", 405, "use POST"},
		{"POST", "viewer", "/git/cluster.git/git-upload-pack", 415, "content type"},
	}
	for _, tt := range tests {
		res, body := do(t, s, tt.method, tt.who, tt.path, nil, nil)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.text) {
			t.Errorf("%s %s as %q: %s %q, want %d %q", tt.method, tt.path, tt.who, res.Status, body, tt.status, tt.text)
		}
		if challenge := res.Header.Get("WWW-Authenticate"); (challenge != "") != (tt.status == 401) {
			t.Errorf("%s as %q: challenge %q", tt.path, tt.who, challenge)
		}
	}
}

func TestGitShowsWhyPushIsForbidden(t *testing.T) {
	s, clone := seeded(t)
	write(t, clone, map[string]string{"a": "1"})
	commit(t, clone, "One")
	out, err := tryGit(t, clone, "push", s.as("viewer"), "main")
	if err == nil || !strings.Contains(out, `remote: user "viewer" may clone and fetch but not push`) || !strings.Contains(out, "403") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := tryGit(t, clone, "ls-remote", s.as("stranger")); err == nil {
		t.Errorf("a stranger sees %s", out)
	}
}

func TestGzipBody(t *testing.T) {
	s, clone := seeded(t)
	head := git(t, clone, "rev-parse", "HEAD")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, pkt("want "+head+" ofs-delta\n")+"0000"+pkt("done\n"))
	w.Close()
	got := post(t, s, uploadPack, z.String(), map[string]string{"Content-Encoding": "gzip"})
	if !strings.HasPrefix(got, pkt("NAK\n")+"PACK") {
		t.Errorf("answer: %.40q", got)
	}
	h := map[string]string{"Content-Type": "application/x-git-upload-pack-request", "Content-Encoding": "gzip"}
	if res, body := do(t, s, "POST", "viewer", "/git/cluster.git/git-upload-pack", strings.NewReader("plain"), h); res.StatusCode != 400 {
		t.Errorf("%s %s", res.Status, body)
	}
}

func TestMalformedRequests(t *testing.T) {
	s, clone := seeded(t)
	head := git(t, clone, "rev-parse", "HEAD")
	one := strings.Repeat("1", 40)
	tests := []struct {
		service, body string
		status        int
		text          string
	}{
		{receivePack, "0000", 200, ""},
		{receivePack, "", 200, ""},
		{receivePack, "zzzz", 400, "length"},
		{receivePack, "00ff" + head, 400, "cut short"},
		{receivePack, pkt(head), 400, "is no command"},
		{receivePack, pkt(head + " " + one + " refs/heads/x"), 400, "EOF"},
		{receivePack, pkt(head+" "+one+" refs/heads/x\x00report-status") + pkt(head+" "+one+" refs/heads/x") + "0000", 400, "named twice"},
		{receivePack, pkt(zeroSHA+" "+one+" refs/heads/x\x00report-status") + "0000", 200, "ng refs/heads/x missing objects"},
		{receivePack, pkt(zeroSHA+" "+head+" refs/heads/x\x00report-status") + "0000garbage", 200, "unpack read pack"},
		{receivePack, pkt(zeroSHA+" "+head+" refs/heads/../x\x00report-status") + "0000", 200, "ng refs/heads/../x funny refname"},
		{uploadPack, "0000", 200, ""},
		{uploadPack, pkt("want nothing") + "0000", 400, "want nothing"},
		{uploadPack, pkt("want "+one) + "0000" + pkt("done"), 200, "ERR upload-pack: not our ref " + one},
		{uploadPack, pkt("want "+head) + pkt("deepen -1") + "0000", 400, "deepen"},
		{uploadPack, pkt("want "+head) + pkt("deepen-since 1") + "0000", 400, "not supported"},
		{uploadPack, pkt("want "+head) + "0000" + pkt("have x"), 400, "have x"},
	}
	for _, tt := range tests {
		h := map[string]string{"Content-Type": "application/x-" + tt.service + "-request"}
		res, got := do(t, s, "POST", "pusher", "/git/cluster.git/"+tt.service, strings.NewReader(tt.body), h)
		if res.StatusCode != tt.status || !strings.Contains(got, tt.text) {
			t.Errorf("%s %q: %s %q, want %d %q", tt.service, tt.body, res.Status, got, tt.status, tt.text)
		}
	}
	s.verify(t)
}
