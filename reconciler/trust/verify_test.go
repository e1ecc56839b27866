package trust

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const later = 30 * 24 * time.Hour

// onlyKey is a policy of one key.
func onlyKey(typ, key string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "keys:\n- name: alice\n  type: %s\n  key: |\n", typ)
	for line := range strings.Lines(strings.TrimSpace(key)) {
		b.WriteString("    " + line)
	}
	b.WriteString("\n")
	for _, m := range more {
		b.WriteString("  " + m + "\n")
	}
	b.WriteString("rules:\n- path: /.writ/\n")
	return b.String()
}

func TestVerifySSH(t *testing.T) {
	for name, args := range map[string][]string{
		"ed25519":  {"-t", "ed25519"},
		"rsa":      {"-t", "rsa", "-b", "2048"},
		"ecdsa256": {"-t", "ecdsa", "-b", "256"},
		"ecdsa521": {"-t", "ecdsa", "-b", "521"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			key, pub := sshKey(t, "alice", args...)
			sha := r.commit("alice", key, "a.yaml", "a: 1\n")
			raw, _ := r.Commit(sha)
			s, err := mustParse(t, onlyKey("ssh", pub)).Verify(sha, raw, start.Add(later))
			if err != nil || s.State != Verified || s.Signer != "alice" || !strings.HasPrefix(s.Key, "SHA256:") {
				t.Fatalf("Verify = %+v, %v", s, err)
			}
			// git itself is of the same opinion.
			allowed := filepath.Join(t.TempDir(), "allowed")
			if err := os.WriteFile(allowed, []byte("alice@example.org "+pub+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r.git("-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", sha)

			_, other := sshKey(t, "bob", args...)
			if s, _ := mustParse(t, onlyKey("ssh", other)).Verify(sha, raw, start.Add(later)); s.State != Unknown || !strings.Contains(s.Message, "not in the policy") {
				t.Errorf("by another key: %+v", s)
			}
			changed := bytes.Replace(raw, []byte("change a.yaml"), []byte("change b.yaml"), 1)
			if s, err := mustParse(t, onlyKey("ssh", pub)).Verify(objectName(40, changed), changed, start.Add(later)); err != nil || s.State != Bad {
				t.Errorf("changed message: %+v, %v", s, err)
			}
			if _, err := mustParse(t, onlyKey("ssh", pub)).Verify(sha, changed, start); err == nil {
				t.Error("an object under the name of another one is accepted")
			}
		})
	}
}

func TestVerifyUnsigned(t *testing.T) {
	r := newRepo(t)
	_, pub := sshKey(t, "alice", "-t", "ed25519")
	sha := r.commit("alice", "", "a.yaml", "a: 1\n")
	raw, _ := r.Commit(sha)
	if s, err := mustParse(t, onlyKey("ssh", pub)).Verify(sha, raw, start); err != nil || s.State != Unsigned {
		t.Fatalf("Verify = %+v, %v", s, err)
	}
}

// A key counts only within its time and for its addresses.
func TestVerifyBounds(t *testing.T) {
	r := newRepo(t)
	key, pub := sshKey(t, "alice", "-t", "ed25519")
	sha := r.commit("alice", key, "a.yaml", "a: 1\n")
	raw, _ := r.Commit(sha)
	for _, c := range []struct {
		field, want string
		state       State
	}{
		{"mails: [alice@example.org]", "", Verified},
		{`mails: ["*@example.org"]`, "", Verified},
		{"mails: [bob@example.org]", "may not sign for the committer alice@example.org", Bad},
		{"validAfter: 2026-03-02", "is valid from 2026-03-02T00:00:00Z, and the commit is of 2026-03-01", Bad},
		{"validBefore: 2026-03-01T13:00:00Z", "was valid until", Bad},
		{"validBefore: 2026-03-15", "and it is now 2026-03-31", Bad}, // valid then, and no more
		{"validBefore: 2026-05-01", "", Verified},
	} {
		s, err := mustParse(t, onlyKey("ssh", pub, c.field)).Verify(sha, raw, start.Add(later))
		if err != nil || s.State != c.state || !strings.Contains(s.Message, c.want) {
			t.Errorf("%s: %+v, %v", c.field, s, err)
		}
	}
}

// A signature that was made for another purpose does not count, nor does one
// with an algorithm that is not safe.
func TestVerifyForeignSSH(t *testing.T) {
	r := newRepo(t)
	key, pub := sshKey(t, "alice", "-t", "rsa", "-b", "2048")
	sha := r.commit("alice", "", "a.yaml", "a: 1\n")
	raw, _ := r.Commit(sha)
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	sign := func(args ...string) []byte {
		t.Helper()
		os.Remove(file + ".sig")
		out, err := exec.Command("ssh-keygen", append([]string{"-q", "-Y", "sign", "-f", key}, append(args, file)...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
		sig, err := os.ReadFile(file + ".sig")
		if err != nil {
			t.Fatal(err)
		}
		return withSignature(raw, string(sig))
	}
	p := mustParse(t, onlyKey("ssh", pub))
	for name, c := range map[string]struct {
		raw   []byte
		state State
	}{
		"git":           {sign("-n", "git"), Verified},
		"git sha256":    {sign("-n", "git", "-O", "hashalg=sha256"), Verified},
		"file":          {sign("-n", "file"), Bad},
		"broken armor":  {withSignature(raw, "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"), Bad},
		"no armor end":  {withSignature(raw, "-----BEGIN SSH SIGNATURE-----\nAAAA\n"), Bad},
		"x509":          {withSignature(raw, "-----BEGIN SIGNED MESSAGE-----\nAAAA\n"), Unknown},
		"pgp nonsense":  {withSignature(raw, "-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n"), Bad},
		"something":     {withSignature(raw, "trust me\n"), Bad},
		"two of them":   {bytes.Replace(sign("-n", "git"), []byte("\n\n"), []byte("\n"+string(sign("-n", "git"))), 1), ""},
		"foreign hash":  {bytes.Replace(sign("-n", "git"), []byte("gpgsig "), []byte("gpgsig-sha256 "), 1), Unsigned},
		"text after it": {withSignature(raw, string(signatureOf(sign("-n", "git")))+"more\n"), Bad},
	} {
		s, err := p.Verify(objectName(40, c.raw), c.raw, start.Add(later))
		if (err != nil) != (c.state == "") || s.State != c.state {
			t.Errorf("%s: %+v, %v; want %s", name, s, err, c.state)
		}
	}
}

// withSignature puts a signature into a commit object, where git puts it.
func withSignature(raw []byte, sig string) []byte {
	head, body, _ := bytes.Cut(raw, []byte("\n\n"))
	return []byte(string(head) + "\ngpgsig " + strings.ReplaceAll(strings.TrimRight(sig, "\n"), "\n", "\n ") + "\n\n" + string(body))
}

func signatureOf(raw []byte) []byte {
	o, err := parseObject(objectName(40, raw), raw)
	if err != nil {
		panic(err)
	}
	return o.signature
}

// gpgHome makes a key of gpg, and returns its home and the public key.
func gpgHome(t *testing.T, algo, expire string) (env []string, id, public string) {
	t.Helper()
	need(t, "gpg", "git")
	home, err := os.MkdirTemp("", "gpg") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	env = append(os.Environ(), "GNUPGHOME="+home)
	t.Cleanup(func() {
		cmd := exec.Command("gpgconf", "--kill", "all")
		cmd.Env = env
		_ = cmd.Run()
		os.RemoveAll(home)
	})
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("gpg", append([]string{"--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
		cmd.Env = env
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("gpg %v: %v\n%s", args, err, stderr.String())
		}
		return string(out)
	}
	run("--faked-system-time", "20260101T000000!", "--quick-gen-key", "Alice <alice@example.org>", algo, "sign", expire)
	for line := range strings.Lines(run("--list-keys", "--with-colons")) {
		if f := strings.Split(line, ":"); f[0] == "fpr" && id == "" {
			id = f[9]
		}
	}
	return env, id, run("--armor", "--export", id)
}

func TestVerifyOpenPGP(t *testing.T) {
	for _, algo := range []string{"ed25519", "rsa2048", "nistp256"} {
		t.Run(algo, func(t *testing.T) {
			env, id, pub := gpgHome(t, algo, "never")
			r := newRepo(t)
			r.env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
			r.git("config", "gpg.format", "openpgp")
			sha := r.commit("alice", id, "a.yaml", "a: 1\n")
			raw, _ := r.Commit(sha)
			now := time.Now() // gpg dates its signatures itself
			p := mustParse(t, onlyKey("openpgp", pub, "mails: [alice@example.org]"))
			s, err := p.Verify(sha, raw, now)
			if err != nil || s.State != Verified || s.Signer != "alice" || s.Key != id {
				t.Fatalf("Verify = %+v, %v; want %s", s, err, id)
			}
			r.git("verify-commit", sha)
			changed := bytes.Replace(raw, []byte("change a.yaml"), []byte("change b.yaml"), 1)
			if s, _ := p.Verify(objectName(40, changed), changed, now); s.State != Bad {
				t.Errorf("changed: %+v", s)
			}
			_, _, other := gpgHome(t, "ed25519", "never")
			if s, _ := mustParse(t, onlyKey("openpgp", other)).Verify(sha, raw, now); s.State != Unknown || !strings.Contains(s.Message, id) {
				t.Errorf("by another key: %+v", s)
			}
		})
	}
}

// An OpenPGP key that has ended since does not count, as for gpg.
func TestVerifyOpenPGPExpired(t *testing.T) {
	env, id, pub := gpgHome(t, "ed25519", "20y")
	r := newRepo(t)
	r.env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	r.git("config", "gpg.format", "openpgp")
	sha := r.commit("alice", id, "a.yaml", "a: 1\n")
	raw, _ := r.Commit(sha)
	p := mustParse(t, onlyKey("openpgp", pub))
	if s, _ := p.Verify(sha, raw, time.Now()); s.State != Verified {
		t.Fatalf("in time: %+v", s)
	}
	if s, _ := p.Verify(sha, raw, time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)); s.State != Bad || !strings.Contains(s.Message, "expired") {
		t.Errorf("afterwards: %+v", s)
	}
}

func FuzzCommit(f *testing.F) {
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\ngpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n\nmessage\n"))
	f.Add([]byte("author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n wsBcBAEBCAAQBQJk\n -----END PGP SIGNATURE-----\n\n"))
	p := &Policy{keys: []Key{{Name: "a"}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := p.Verify(objectName(40, raw), raw, start)
		if err == nil && s.State == Verified {
			t.Fatal("nobody can have signed this")
		}
	})
}
