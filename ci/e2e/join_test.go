//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestJoin: a machine that has nothing but an address, a token and a hash
// becomes a node, runs what Git declares, and is one again after a restart
// without them.
func TestJoin(t *testing.T) {
	c := newCluster(t)
	c.start("server", "server", "--no-agent", "--data-dir", c.data, "--seed", "guestbook")
	var made struct{ Token, Server, CAHash string }
	c.eventually(20*time.Second, "a token is made", func() error {
		out, err := c.run(c.bin("writ"), "token", "create", "--data-dir", c.data, "--ttl", "1h", "-o", "json")
		hint, said, ok := strings.Cut(out, "{")
		if err != nil || !ok {
			return fmt.Errorf("%w: %s", err, out)
		}
		contains(t, "a server that listens on loopback", hint, "other machines do not reach https://10.244.0.1:6443", "--listen 0.0.0.0:6443")
		return json.Unmarshal([]byte("{"+said), &made)
	})
	node := filepath.Join(c.dir, "node")
	t.Cleanup(func() {
		c.stop("agent", syscall.SIGTERM)
		if out, err := c.run(c.bin("writ"), "down", "--data-dir", node); err != nil {
			t.Errorf("writ down: %v\n%s", err, out)
		}
	})
	agent := func(more ...string) []string {
		return append([]string{"agent", "--data-dir", node, "--node-name", "second"}, more...)
	}
	at := "--server=https://127.0.0.1:6443"
	contains(t, "an agent with nothing", c.refused(c.bin("writ"), agent()...), "this machine is no member of a cluster", "--token")
	contains(t, "a wrong hash", c.refused(c.bin("writ"), agent(at, "--token", made.Token, "--ca-hash", "sha256:"+strings.Repeat("0", 64))...), made.CAHash, "another cluster")
	contains(t, "a wrong token", c.refused(c.bin("writ"), agent(at, "--token", "abcdef.0123456789abcdef", "--ca-hash", made.CAHash)...), "no signature of token abcdef")

	c.start("agent", agent(at, "--token", made.Token, "--ca-hash", made.CAHash)...)
	c.ready()
	served := func() {
		t.Helper()
		c.kubectl("rollout", "status", "deploy/web", "-n", "guestbook", "--timeout=60s")
		c.eventually(time.Minute, "the page is served, and its logs are read through the node", func() error {
			out, err := c.run(c.bin("kubectl"), "logs", "deploy/web", "-n", "guestbook", "--tail=1")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	served()
	c.stop("agent", syscall.SIGKILL)
	c.must(c.bin("writ"), "token", "delete", made.Token, "--data-dir", c.data)
	c.start("agent", agent()...)
	c.kubectl("--kubeconfig="+filepath.Join(c.data, "admin.kubeconfig"), "delete", "pods", "--all", "-n", "guestbook")
	served()
}
