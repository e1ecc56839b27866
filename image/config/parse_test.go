package config

import (
	"strings"
	"testing"
)

const serverYAML = `# the first machine
role: server
nodeName: first
listen: 0.0.0.0:6443
nodeIP: 192.0.2.7
repository:
  url: https://git.example.com/cluster.git
  branch: main
  path: clusters/home
  username: reader
  password: "it's \"$HOME\" & more"
network:
  interfaces:
    - match: {name: "en*"}
      addresses: [192.0.2.7/24]
      gateway: 192.0.2.1
      dns: [192.0.2.1]
timeServers: [time.example.com]
imageKeys:
  - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDyR1h8nFJ0cQ4xLw8nEo4nR8Hj4p5j7b7q3bJv1o1Yk release@example.com
`

const hash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

const furtherYAML = "role: server\nserver: https://192.0.2.7:6443\ntoken: abcdef.0123456789abcdef\ncaHashes: [" + hash + "]\n"

const agentYAML = `role: agent
server: https://192.0.2.7:6443
token: abcdef.0123456789abcdef
caHashes:
  - sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
`

func TestParseAccepts(t *testing.T) {
	for _, data := range []string{serverYAML, agentYAML, furtherYAML, "role: server\n" + authorityYAML, "role: server\ntoken: abcdef.0123456789abcdef\n", "role: server", "role: server\nencryption: {}\n", "role: server\nencryption: {recoveryKey: " + strings.Repeat("k", 32) + "}\n", "---\nrole: server\n",
		"role: server\nrepository: {url: 'git@git.example.com:cluster.git', knownHosts: \"git.example.com ssh-ed25519 AAAA\\n\"}",
		"{role: server, network: {interfaces: [{match: {mac: '52:54:00:12:34:56'}, dhcp: true, mtu: 9000}]}}"} {
		n, fs := Parse("node.yaml", []byte(data))
		for _, f := range fs {
			t.Errorf("%s\n%s", Say(f), data)
		}
		if n.Role == "" {
			t.Errorf("no role from\n%s", data)
		}
	}
	n, _ := Parse("node.yaml", []byte(serverYAML))
	if n.Repository.Password != `it's "$HOME" & more` || n.Network.Interfaces[0].Match.Name != "en*" || n.Role != Server {
		t.Errorf("decoded %+v", n)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", `node.yaml: must be one object`},
		{"ends of lines", "role: server\r\r\r\nnodeName: a\nlisten: a:1\n", `node.yaml: not YAML: its lines cannot be told apart`},
		{"no YAML", "role: [", `node.yaml:1`},
		{"a list", "- role", `node.yaml: must be one object`},
		{"two documents", "role: server\n---\nrole: agent\n", `node.yaml: must be one object`},
		{"no role", "nodeName: a\n", `node.yaml:1:1: role: is required: server or agent`},
		{"role", "role: master\n", `node.yaml:1:7: role: must be server or agent, is "master"`},
		{"unknown", "role: server\nnodename: a\n", `node.yaml:2:1: nodename: there is no such field (did you mean "nodeName"?)`},
		{"unknown within", "role: server\nrepository:\n  url: https://a/b\n  brach: x\n", `node.yaml:4:3: repository.brach: there is no such field (did you mean "branch"?)`},
		{"twice", "role: server\nrole: agent\n", `node.yaml:2:1:`},
		{"type", "role: server\nrepository: https://a\n", `node.yaml:2:13: repository: must be an object`},
		{"number", "role: agent\nserver: https://a\ntoken: 123456.7890123456789012\n", `node.yaml:3:8: token: must be a token as 'writ token create' prints it (put it into quotes)`},
		{"null", "role: server\nlisten:\n", `listen: must be an address and a port such as 0.0.0.0:6443, is empty`},
		{"blank in a word", "role: server\nrepository: {url: https://a/b, path: 'a b'}\n", `node.yaml:2:38: repository.path: must be a folder`},
		{"dollar in a word", "role: server\nrepository: {url: https://a/b, branch: '$x'}\n", `repository.branch: must be`},
		{"flag as address", "role: server\nlisten: --help\n", `node.yaml:2:9: listen: must be`},
		{"port", "role: server\nlisten: 0.0.0.0:70000\n", `node.yaml:2:1: listen: must be an address and a port`},
		{"agent alone", "role: agent\n", `node.yaml:1:1: server: is required of an agent`},
		{"agent alone, token", "role: agent\n", `node.yaml:1:1: token: is required of an agent: 'writ token create'`},
		{"agent with repository", agentYAML + "repository: {url: https://a/b}\n", `node.yaml:6:1: repository: belongs to a server`},
		{"first server with hashes", "role: server\ncaHashes: [" + hash + "]\n", `node.yaml:2:1: caHashes: vouches for a cluster that is there, and needs server beside it`},
		{"further server alone", "role: server\nserver: https://a:6443\n", `node.yaml:1:1: token: is required to join as a server: 'writ token create --role server' prints one`},
		{"further server, hash", "role: server\nserver: https://a:6443\n", `node.yaml:1:1: caHashes: are required to join as a server`},
		{"further server with repository", furtherYAML + "repository: {url: https://a/b}\n", `node.yaml:5:1: repository: is handed over by the cluster when a server joins it: leave it out beside server`},
		{"further server with authority", furtherYAML + authorityYAML, `node.yaml:5:1: authority: is handed over by the cluster`},
		{"further server by itself", furtherYAML + "listen: 127.0.0.1:6443\n", `node.yaml:5:1: listen: must be an address that the other servers reach`},
		{"agent with authority", agentYAML + authorityYAML, `node.yaml:6:1: authority: belongs to a server`},
		{"authority without key", "role: server\nauthority: {certificate: x}\n", `authority.key: is required`},
		{"authority is text", "role: server\nauthority: x\n", `node.yaml:2:12: authority: must be an object`},
		{"no certificate", strings.Replace("role: server\n"+authorityYAML, "MIIB", "MIIC", 1), `node.yaml:3:3: authority.certificate: must be one certificate in PEM form`},
		{"two certificates", "role: server\n" + twice(authorityYAML), `node.yaml:3:3: authority.certificate: must be one certificate`},
		{"no authority", "role: server\n" + leafYAML, `node.yaml:3:3: authority.certificate: must be that of an authority`},
		{"another key", "role: server\n" + otherKeyYAML, `:3: authority.key: is not the key of authority.certificate`},
		{"no key", "role: server\n" + strings.Replace(authorityYAML, "MHcC", "MHcD", 1), `authority.key: must be a private key in PEM form`},
		{"RSA", "role: server\n" + rsaYAML, `node.yaml:3:3: authority.certificate: must have an ECDSA key`},
		{"password without user", "role: server\nrepository: {url: https://a/b, password: x}\n", `repository.username: is required beside password`},
		{"password over http", "role: server\nrepository: {url: http://a/b, username: u, password: x}\n", `repository.password: is only sent over https://`},
		{"ssh without hosts", "role: server\nrepository: {url: ssh://git@a/b}\n", `repository.knownHosts: is required with SSH`},
		{"gateway elsewhere", "role: server\nnetwork: {interfaces: [{match: {name: e}, addresses: [192.0.2.7/24], gateway: 198.51.100.1}]}\n", `network.interfaces[0].gateway: is in none of the networks`},
		{"no match", "role: server\nnetwork: {interfaces: [{match: {}}]}\n", `network.interfaces[0].match: needs a name or a mac`},
		{"no interfaces", "role: server\nnetwork: {interfaces: []}\n", `network.interfaces`},
		{"no address", "role: server\nnetwork: {interfaces: [{match: {name: e}, dhcp: false}]}\n", `addresses: are required without DHCP`},
		{"address", "role: server\nnetwork: {interfaces: [{match: {name: e}, addresses: [192.0.2.7]}]}\n", `network.interfaces[0].addresses[0]: must be an address with its prefix such as 192.0.2.7/24, is "192.0.2.7"`},
		{"newline in a password", "role: server\nrepository: {url: https://a/b, username: u, password: \"a\\nX=1\"}\n", `repository.password: must be one line`},
		{"short recovery key", "role: server\nencryption: {recoveryKey: secret}\n", `node.yaml:2:27: encryption.recoveryKey: must be 32 to 512 characters without blanks`},
		{"recovery key of two lines", "role: server\nencryption: {recoveryKey: \"" + strings.Repeat("k", 32) + "\\n\"}\n", `encryption.recoveryKey: must be 32 to 512`},
		{"key", "role: server\nimageKeys: [nonsense]\n", `node.yaml:2:13: imageKeys[0]: must be an Ed25519 SSH public key`},
		{"cloud-init", "#cloud-config\nusers: []\n", `is written for another system`},
		{"large", strings.Repeat("# x\n", MaxSize/4+1), `at most 1048576 are read`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, fs := Parse("node.yaml", []byte(c.data))
			var all []string
			for _, f := range fs {
				all = append(all, Say(f))
			}
			if !strings.Contains(strings.Join(all, "\n"), c.want) {
				t.Errorf("got %q\nwant %q", all, c.want)
			}
		})
	}
}

// TestParseSaysAll finds several mistakes at once, in the order of the file.
func TestParseSaysAll(t *testing.T) {
	_, fs := Parse("n", []byte("rol: server\nlisten: x\nnodeIP: 1.2.3\n"))
	var got []string
	for _, f := range fs {
		got = append(got, f.Field)
	}
	if strings.Join(got, " ") != "rol role listen nodeIP" {
		t.Errorf("got %v", got)
	}
}

// TestParseKeepsSecrets says what is wrong with a secret, and not the secret.
func TestParseKeepsSecrets(t *testing.T) {
	_, fs := Parse("n", []byte("role: server\ntoken: hunter2\nrepository: {url: https://a/b, password: \"hunter2\\n\", bearerToken: \"hunter2\\n\", sshKey: hunter2}\nauthority: {certificate: x, key: hunter2}\n"))
	if len(fs) != 6 {
		t.Errorf("got %d findings", len(fs))
	}
	for _, f := range fs {
		if strings.Contains(Say(f), "hunter2") {
			t.Error(Say(f))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(serverYAML))
	f.Add([]byte(agentYAML))
	f.Add([]byte(furtherYAML))
	f.Add([]byte("role: server\ntoken: abcdef.0123456789abcdef\n" + authorityYAML))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, fs := Parse("n", data)
		if len(fs) > 0 {
			return
		}
		p := Decide(n, Facts{Name: "writ-0"})
		for _, s := range p.Services {
			if strings.ContainsAny(s.env(), "\x00") {
				t.Errorf("%q", s.env())
			}
			if got, err := readEnv(s.env()); err != nil || got["WRIT_ARGS"] != strings.Join(s.Args, " ") {
				t.Errorf("%q is read as %q, %v", s.env(), got, err)
			}
		}
	})
}
