//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServersLost: a server whose Node was deleted leaves when it does not answer,
// and not before; when most servers are lost the one that is left goes on, with
// what it has, once it is told to, and others join it.
func TestServersLost(t *testing.T) {
	m := newMachines(t, "s1", "s2", "s3")
	began := time.Now()
	step := func(what string) { t.Logf("%5.1fs %s", time.Since(began).Seconds(), what) }
	names := []string{"s1", "s2", "s3"}
	m.server("s1", "--seed", "guestbook")
	byServer := m.token("server")
	others := func(not ...string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(not, n) })
	}
	join := func(name, by string) {
		t.Helper()
		m.server(name, append([]string{"--server", "https://" + address(slices.Index(names, by)) + ":6443"}, byServer[2:]...)...)
	}
	for i, name := range names[1:] {
		join(name, "s1")
		m.settled("s1", i+2)
	}
	step("three servers")
	admin := func(at string, args ...string) (string, error) {
		return m.all[at].run(m.bin("kubectl"), append([]string{"--kubeconfig=" + filepath.Join(m.all[at].data, "admin.kubeconfig")}, args...)...)
	}
	members := func(at string, want int) {
		t.Helper()
		m.eventually(60*time.Second, fmt.Sprintf("%d servers are members", want), func() error {
			all, _, err := m.servers(at)
			if err != nil || len(all) != want {
				return fmt.Errorf("%+v: %w", all, err)
			}
			return nil
		})
	}
	ends := func(name string) {
		t.Helper()
		m.eventually(40*time.Second, name+" ends", func() error {
			if last := tail(m.all[name].log(name), 5); !strings.Contains(last, "was removed from the cluster") {
				return fmt.Errorf("%s", last)
			}
			return nil
		})
		m.all[name].stop(name, syscall.SIGKILL)
	}
	empty := func(name string) {
		t.Helper()
		if err := os.RemoveAll(m.all[name].data); err != nil {
			t.Fatal(err)
		}
	}

	// The Node of one is deleted: that says nothing while it answers.
	leader := m.settled("s1", 3)
	gone, at := others(leader)[0], others(leader)[1]
	file := filepath.Join(m.dir, "node.yaml")
	m.cluster.write(file, "apiVersion: v1\nkind: Node\nmetadata: {name: "+gone+"}\n")
	if out, err := admin(at, "apply", "-f", file); err != nil {
		t.Fatal(out)
	}
	m.eventually(20*time.Second, "the lease of "+gone+" names its Node", func() error {
		out, err := admin(at, "get", "lease", "-n", "kube-system", "writ-server-"+gone, "-o", `jsonpath={.metadata.annotations.writ\.dev/node}`)
		if err != nil || out == "" {
			return fmt.Errorf("%q: %w", out, err)
		}
		return nil
	})
	if out, err := admin(at, "delete", "node", gone); err != nil {
		t.Fatal(out)
	}
	time.Sleep(8 * time.Second)
	members(at, 3)
	status := m.all[at].must(m.bin("writ"), "status")
	contains(t, "status", status, "servers", leader+"  leader    ready", gone+"  follower  ready")
	m.all[gone].stop(gone, syscall.SIGKILL)
	killed := time.Now()
	m.eventually(20*time.Second, "status says that one is away", func() error {
		out, err := m.all[at].run(m.bin("writ"), "status", "-o", "json")
		var s struct{ Servers []serverStatus }
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if i := slices.IndexFunc(s.Servers, func(s serverStatus) bool { return s.Name == gone }); err != nil || i >= 0 && s.Servers[i].Ready {
			return fmt.Errorf("%+v: %w", s, err)
		}
		return nil
	})
	members(at, 2)
	step(fmt.Sprintf("%s was removed %v after its death", gone, time.Since(killed).Round(time.Second)))
	m.eventually(10*time.Second, "an Event says so", func() error {
		out, err := admin(at, "get", "events", "-A", "--field-selector", "reason=ServerRemoved,involvedObject.name="+gone)
		if err != nil || !strings.Contains(out, "its Node was deleted") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	m.server(gone)
	ends(gone)
	empty(gone)
	join(gone, at)
	leader = m.settled(at, 3)
	step(gone + " has joined again")

	// A push, and then most are lost.
	repo := m.all[at].clone("repo")
	pushed := func(at, what string) {
		t.Helper()
		m.cluster.write(filepath.Join(repo, "pushed.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pushed, namespace: default}\ndata: {what: "+what+"}\n")
		m.all[at].commit(repo, what)
		m.all[at].must("git", "-C", repo, "-c", "include.path="+filepath.Join(m.all[at].data, "pusher.gitconfig"), "push", "origin", "HEAD:main")
	}
	applied := func(at, what string) {
		t.Helper()
		m.eventually(30*time.Second, what+" is applied", func() error {
			if got, err := m.all[at].run(m.bin("kubectl"), "get", "cm", "pushed", "-o", "jsonpath={.data.what}"); got != what {
				return fmt.Errorf("%s: %w", got, err)
			}
			return nil
		})
	}
	pushed(at, "before")
	applied(at, "before")
	left := others(leader)[0] // a follower
	data := m.all[left].data
	reset := []string{"member", "reset", "--data-dir", data}
	contains(t, "a reset beside a server that runs", m.all[left].refused(m.bin("writ"), append(reset, "--yes")...), "another writ (pid")
	m.all[left].stop(left, syscall.SIGTERM)
	contains(t, "a reset beside two that are in step", m.all[left].refused(m.bin("writ"), append(reset, "--yes")...), "most of the servers are there")
	for _, n := range others(left) {
		m.all[n].stop(n, syscall.SIGKILL)
	}
	contains(t, "a reset without a terminal", m.all[left].refused(m.bin("writ"), reset...), "there is no terminal", left+" becomes the only server", "does not answer")
	out := m.all[left].must(m.bin("writ"), append(reset, "--yes")...)
	contains(t, "reset", out, left+" is the only server of its cluster: start it", "store-before-reset-")
	contains(t, "a second reset", m.all[left].must(m.bin("writ"), append(reset, "--yes")...), "nothing to do")
	m.server(left)
	m.settled(left, 1)
	step(left + " goes on alone")
	applied(left, "before")
	m.eventually(30*time.Second, "it takes pushes", func() error {
		out, err := m.all[left].run("git", "-C", repo, "-c", "include.path="+filepath.Join(data, "pusher.gitconfig"), "ls-remote", "origin")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	pushed(left, "after")
	applied(left, "after")
	step("a push to it")

	back := others(left)[0]
	m.server(back)
	ends(back)
	for _, n := range others(left) {
		empty(n)
		join(n, left)
	}
	m.settled(left, 3)
	pushed(back, "at last")
	applied(left, "at last")
	step("the others have joined again")

	// Where nobody can log in, the server does it while it runs.
	there := []string{"member", "reset", "--server", "https://127.0.0.1:6443", "--kubeconfig", filepath.Join(data, "admin.kubeconfig"), "--yes"}
	contains(t, "a reset of a server that is in step", m.all[left].refused(m.bin("writ"), there...), "most of the servers are there")
	for _, n := range others(left) {
		m.all[n].stop(n, syscall.SIGKILL)
	}
	viewer := append(slices.Clone(there[:4]), "--kubeconfig", filepath.Join(data, "viewer.kubeconfig"), "--yes")
	contains(t, "a reset by a viewer", m.all[left].refused(m.bin("writ"), viewer...), "may not post /servers/reset")
	contains(t, "a reset of a server that runs", m.all[left].must(m.bin("writ"), there...), left+" starts again, as the only server", "does not answer")
	m.settled(left, 1)
	pushed(left, "once more")
	applied(left, "once more")
	step(left + " goes on alone, and never ended")
}
