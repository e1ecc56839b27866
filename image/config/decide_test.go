package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func files(p Plan) map[string]string {
	out := map[string]string{}
	for _, f := range p.Files {
		out[f.Path] = string(f.Data)
	}
	return out
}

func parsed(t *testing.T, data string) Node {
	t.Helper()
	n, fs := Parse("node.yaml", []byte(data))
	for _, f := range fs {
		t.Fatal(Say(f))
	}
	return n
}

// readEnv reads an environment file as systemd does.
func readEnv(s string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(s) {
		k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), `="`)
		v, closed := strings.CutSuffix(v, `"`)
		if !ok || !closed {
			return nil, errors.New("no assignment: " + line)
		}
		var b strings.Builder
		for i := 0; i < len(v); i++ {
			switch {
			case v[i] == '\\' && i+1 < len(v) && strings.IndexByte("\"\\`$", v[i+1]) >= 0:
				i++
			case v[i] == '"':
				return nil, errors.New("ends early: " + line)
			}
			b.WriteByte(v[i])
		}
		out[k] = b.String()
	}
	return out, nil
}

func TestDecideServer(t *testing.T) {
	p := Decide(parsed(t, serverYAML), Facts{Name: "writ-1"})
	if p.Hostname != "first" || len(p.Services) != 2 {
		t.Fatalf("%+v", p)
	}
	fs := files(p)
	env, err := readEnv(fs["/run/writ/server.env"])
	if err != nil {
		t.Fatal(err)
	}
	const args = "--node-name first --node-ip 192.0.2.7 --listen 0.0.0.0:6443 --repo https://git.example.com/cluster.git --branch main --path clusters/home --repo-user reader"
	if env["WRIT_ARGS"] != args || env["WRIT_REPO_PASSWORD"] != `it's "$HOME" & more` {
		t.Errorf("server.env: %q", env)
	}
	env, err = readEnv(fs["/run/writ/agent.env"])
	if err != nil || env["WRIT_ARGS"] != "--node-name first --node-ip 192.0.2.7" || len(env) != 1 {
		t.Errorf("agent.env: %q, %v", env, err)
	}
	const network = "[Match]\nName=en*\nKind=!*\n[Network]\nDHCP=no\nIPv6AcceptRA=no\nAddress=192.0.2.7/24\nGateway=192.0.2.1\nDNS=192.0.2.1\n"
	if got := fs["/run/systemd/network/20-writ-00.network"]; got != network {
		t.Errorf("network: %s", got)
	}
	if got := fs["/run/systemd/timesyncd.conf.d/20-writ.conf"]; got != "[Time]\nNTP=time.example.com\n" {
		t.Errorf("time: %s", got)
	}
	if got := fs[ImageKeysFile]; !strings.HasPrefix(got, "release@example.com ssh-ed25519 AAAA") {
		t.Errorf("signers: %s", got)
	}
}

// Leave to take unsigned images is a file of its own, and is said at each start.
func TestDecideUnsignedImages(t *testing.T) {
	p := Decide(parsed(t, "role: server\nunsignedImages: true\n"), Facts{Name: "writ-1"})
	if !slices.ContainsFunc(p.Files, func(f File) bool { return f.Path == UnsignedImagesFile }) || len(p.Warnings) != 1 {
		t.Errorf("%+v %q", p.Files, p.Warnings)
	}
	p = Decide(parsed(t, "role: server\n"), Facts{Name: "writ-1"})
	if slices.ContainsFunc(p.Files, func(f File) bool { return f.Path == UnsignedImagesFile || f.Path == ImageKeysFile }) {
		t.Errorf("%+v", p.Files)
	}
	if _, findings := Parse("node.yaml", []byte("role: server\nunsignedImages: true\nimageKeys: [\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7wHnR0b1yQ0m0m2Wc3H1m8mXr2mJ5pN4uX0J0Qm5mZ a@b\"]\n")); len(findings) == 0 {
		t.Error("both at once are taken")
	}
}

func TestDecideAgent(t *testing.T) {
	p := Decide(parsed(t, agentYAML), Facts{Name: "writ-1"})
	if p.Hostname != "writ-1" || len(p.Services) != 1 {
		t.Fatalf("%+v", p)
	}
	fs := files(p)
	if _, ok := fs["/run/writ/server.env"]; ok {
		t.Error("an agent is no server")
	}
	env, err := readEnv(fs["/run/writ/agent.env"])
	if err != nil || env["WRIT_TOKEN"] != "abcdef.0123456789abcdef" || !strings.HasPrefix(env["WRIT_ARGS"], "--node-name writ-1 --server https://192.0.2.7:6443 --ca-hash sha256:") {
		t.Errorf("agent.env: %q, %v", env, err)
	}
}

// TestSecretsAreForRoot finds secrets in no file that others may read, and in
// no argument, which every process sees.
func TestSecretsAreForRoot(t *testing.T) {
	n := parsed(t, "role: server\nrepository:\n  url: ssh://git@git.example.com/c.git\n  knownHosts: h\n  sshKey: |\n    -----BEGIN OPENSSH PRIVATE KEY-----\n    hunter2\n    -----END OPENSSH PRIVATE KEY-----\n")
	n.Repository.Password, n.Repository.BearerToken, n.Token = "hunter2", "hunter2", "hunter2"
	for _, role := range []Role{Server, Agent} {
		n.Role = role
		found := false
		p := Decide(n, Facts{})
		for _, f := range p.Files {
			if strings.Contains(string(f.Data), "hunter2") {
				found = true
				if f.Mode != 0o600 {
					t.Errorf("%s: mode %o", f.Path, f.Mode)
				}
			}
		}
		if !found {
			t.Errorf("%s: no secret anywhere", role)
		}
		for _, s := range p.Services {
			if slices.ContainsFunc(s.Args, func(a string) bool { return strings.Contains(a, "hunter2") }) {
				t.Errorf("%s: %q", s.Role, s.Args)
			}
		}
	}
}

func TestNewName(t *testing.T) {
	if a, b := NewName("0123456789abcdef0123456789abcdef\n"), NewName("0123456789abcdef0123456789abcdef"); a != b || len(a) != len("writ-")+8 {
		t.Errorf("%s, %s", a, b)
	}
}

func TestChoose(t *testing.T) {
	const a, b, newer = "role: server\nnodeName: a\n", "role: server\nnodeName: b\n", "role: server\nnodeName: c\ngeneration: 2\n"
	src := func(kind Kind, data string) Source { return Source{kind, string(kind), []byte(data)} }
	erased, _, err := Erase([]byte(agentYAML))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		sources []Source
		kind    Kind
		node    string
		bad     bool
		ignored int
	}{
		{name: "none"},
		{name: "empty files", sources: []Source{src(Boot, ""), src(Volume, "\x00\x00")}},
		{name: "the first", sources: []Source{src(Credential, a), src(Boot, b)}, kind: Credential, node: "a", ignored: 1},
		{name: "the same twice", sources: []Source{src(Kept, a), src(Boot, a)}, kind: Kept, node: "a"},
		{name: "erased", sources: []Source{src(Kept, agentYAML), src(Boot, string(erased))}, kind: Kept},
		{name: "erased halfway", sources: []Source{src(Kept, agentYAML), src(Boot, "\x00\x00\x00\x00"+agentYAML[4:])}, kind: Kept},
		{name: "a newer one", sources: []Source{src(Kept, a), src(Boot, newer)}, kind: Boot, node: "c", ignored: 1},
		{name: "an older one", sources: []Source{src(Kept, newer), src(Boot, a)}, kind: Kept, node: "c", ignored: 1},
		{name: "a bad one counts", sources: []Source{src(Credential, "rol: x"), src(Boot, a)}, kind: Credential, bad: true, ignored: 1},
		{name: "a newer one mends a bad one", sources: []Source{src(Kept, "rol: x"), src(Boot, newer)}, kind: Boot, node: "c", ignored: 1},
		{name: "a bad later one does not", sources: []Source{src(Kept, a), src(Boot, "generation: 9")}, kind: Kept, node: "a", ignored: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Choose(c.sources, false)
			if got.Kind != c.kind || got.Found != (c.kind != "") || got.Node.NodeName != c.node || (len(got.Findings) > 0) != c.bad || len(got.Ignored) != c.ignored {
				t.Errorf("%+v", got)
			}
		})
	}
}

// On an encrypted machine a stick, or the plain EFI system partition, does not take
// the place of what is kept, whatever its generation, but with the recovery key.
func TestChooseOnEncryptedMachine(t *testing.T) {
	key, other := strings.Repeat("k", 32), strings.Repeat("o", 32)
	with := func(generation int, key string) []byte {
		return fmt.Appendf(nil, "role: server\nnodeName: mine\ngeneration: %d\nencryption: {recoveryKey: %s}\n", generation, key)
	}
	evil := []byte("role: server\nnodeName: evil\ngeneration: 1000\nrepository: {url: \"https://evil.example.com/x.git\"}\n")
	for name, c := range map[string]struct {
		kept      []byte
		given     []byte
		encrypted bool
		wins      bool
	}{
		"a stick without a key":               {with(1, key), evil, true, false},
		"with another key":                    {with(1, key), with(2, other), true, false},
		"with the key":                        {with(1, key), with(2, key), true, true},
		"an older one with the key":           {with(3, key), with(2, key), true, false},
		"asks for encryption without a key":   {with(1, key), []byte("role: server\ngeneration: 9\nencryption: {}\n"), true, false},
		"kept without a recovery key":         {[]byte("role: server\nencryption: {}\n"), evil, true, false},
		"and the other without one too":       {[]byte("role: server\nencryption: {}\n"), []byte("role: server\ngeneration: 9\nencryption: {}\n"), true, false},
		"kept asks, /var cannot be seen":      {with(1, key), evil, false, false},
		"kept says nothing, /var is":          {[]byte("role: server\n"), evil, true, false},
		"kept was tampered with":              {[]byte("role: server\nx\xf0\x01: {\n"), evil, true, false},
		"a machine that is not encrypted":     {[]byte("role: server\n"), evil, false, true},
		"the first start of an encrypted one": {nil, with(1, key), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []Kind{Credential, Boot, Volume, CommandLine} {
				got := Choose([]Source{{Kept, "kept", c.kept}, {kind, "given", c.given}}, c.encrypted)
				if (got.Kind == kind) != c.wins || got.Node.NodeName == "evil" && !c.wins {
					t.Errorf("%s: %+v", kind, got)
				}
			}
		})
	}
}

func TestErase(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"agent":     {agentYAML, []string{"role: agent\n", "caHashes:\n"}},
		"server":    {serverYAML, []string{"# the first machine\n", "username: reader\n", "path: clusters/home\n"}},
		"flow":      {"{role: agent, server: 'https://a', token: abcdef.0123456789abcdef}", []string{"role: agent"}},
		"elsewhere": {"# token: abcdef.0123456789abcdef\nrole: agent\ntoken: abcdef.0123456789abcdef\n", nil},
	} {
		got, erased, err := Erase([]byte(c.in))
		if err != nil || !erased {
			t.Errorf("%s: %v, %v", name, erased, err)
			continue
		}
		for _, secret := range []string{"0123456789abcdef\n", "abcdef.", "HOME"} {
			if strings.Contains(string(got), secret) && secret != "0123456789abcdef\n" {
				t.Errorf("%s: %q is left in\n%s", name, secret, got)
			}
		}
		for _, want := range c.want {
			if !strings.Contains(string(got), want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, got)
			}
		}
		if again, erased, err := Erase(got); len(c.want) > 0 && (erased || err != nil || string(again) != string(got)) {
			t.Errorf("%s: erased again: %v, %v", name, erased, err)
		}
	}
	if got, erased, err := Erase([]byte("role: server # x\n")); erased || err != nil || string(got) != "role: server # x\n" {
		t.Errorf("%q, %v, %v", got, erased, err)
	}
}

// disks are the files that outlive a boot.
type disks map[Disk]map[string]string

func (d disks) do(s Step) {
	switch s.Op {
	case Write:
		d[s.Disk][s.Path] = string(s.Data)
	case Overwrite:
		d[s.Disk][s.Path] = string(s.Data)
	case Rename:
		d[s.Disk][s.To] = d[s.Disk][s.Path]
		delete(d[s.Disk], s.Path)
	}
}

// half is what a power cut in the middle of a step leaves.
func (d disks) half(s Step) {
	switch s.Op {
	case Write: // beside its name: nothing is seen
	case Overwrite:
		now := d[s.Disk][s.Path]
		d[s.Disk][s.Path] = string(s.Data[:len(now)/2]) + now[len(now)/2:]
	case Rename:
	}
}

func (d disks) clone() disks { return disks{Var: maps.Clone(d[Var]), ESP: maps.Clone(d[ESP])} }

// boot is one boot of the machine, that ends after a number of half steps; -1
// does not end.
func (d disks) boot(t *testing.T, halves int) (Choice, bool) {
	t.Helper()
	data := func(disk Disk, path string) []byte {
		if s, ok := d[disk][path]; ok {
			return []byte(s)
		}
		return nil
	}
	c := Choose([]Source{{Kept, "var", data(Var, VarPath)}, {Boot, "esp", data(ESP, ESPPath)}}, false)
	steps, err := Persist(c, data(ESP, ESPPath))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if halves == 0 {
			return c, false
		}
		if halves == 1 {
			d.half(s)
			return c, false
		}
		d.do(s)
		halves -= 2
	}
	return c, halves != 0 && halves != 1
}

// TestPowerCuts cuts the power at every step of a first boot, and again at
// every step of the boot after it: the machine always knows who it is, and in
// the end no secret is left on the EFI system partition.
func TestPowerCuts(t *testing.T) {
	const secret = "abcdef.0123456789abcdef"
	for first := range 9 {
		for second := range 9 {
			d := disks{Var: {}, ESP: {ESPPath: agentYAML}}
			for _, cut := range []int{first, second, -1, -1} {
				c, _ := d.boot(t, cut)
				if !c.Found || len(c.Findings) > 0 || c.Node.Token != secret {
					t.Fatalf("cut at %d and %d: %+v", first, second, c)
				}
			}
			if strings.Contains(d[ESP][ESPPath], secret) || !strings.Contains(d[ESP][ESPPath], "role: agent") || len(d[ESP]) != 1 {
				t.Fatalf("cut at %d and %d: %q", first, second, d[ESP])
			}
			if d[Var][VarPath] != agentYAML {
				t.Fatalf("cut at %d and %d: %q", first, second, d[Var])
			}
			settled := d.clone()
			d.boot(t, -1)
			if !maps.Equal(settled[ESP], d[ESP]) || !maps.Equal(settled[Var], d[Var]) {
				t.Fatal("a boot of a settled machine writes")
			}
		}
	}
}

// TestPersistLeavesOthers erases nothing that the machine has not kept.
func TestPersistLeavesOthers(t *testing.T) {
	other := strings.Replace(agentYAML, "abcdef.0", "fedcba.9", 1)
	d := disks{Var: {VarPath: agentYAML}, ESP: {ESPPath: other}}
	c, _ := d.boot(t, -1)
	if len(c.Ignored) != 1 || d[ESP][ESPPath] != other || c.Node.Token != "abcdef.0123456789abcdef" {
		t.Errorf("%+v, %q", c, d[ESP])
	}
	// With a higher generation it counts, is kept, and erased.
	d[ESP][ESPPath] = "generation: 1\n" + other
	c, _ = d.boot(t, -1)
	if c.Node.Token != "fedcba.9123456789abcdef" || d[Var][VarPath] != "generation: 1\n"+other || strings.Contains(d[ESP][ESPPath], "fedcba") {
		t.Errorf("%+v, %q", c, d)
	}
}
