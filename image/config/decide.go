package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Facts are what the machine knows of itself.
type Facts struct {
	// Name is the name that it has kept, or takes now; see NewName.
	Name string
	// Authority is the certificate of the cluster that the machine is a server
	// of, at AuthorityFile; nil: it is none yet.
	Authority []byte
}

// AuthorityFile has the authority of the cluster on a server: the server writes
// it when it starts for the first time.
const AuthorityFile = "/var/lib/writ/pki/ca.crt"

// NewName is what a machine is called that is told no name: the same for the
// same machine. The machine's ID itself is not for others to see; see
// machine-id(5).
func NewName(machineID string) string {
	sum := sha256.Sum256([]byte("writ name of " + strings.TrimSpace(machineID)))
	return "writ-" + hex.EncodeToString(sum[:4])
}

// The directories that a Plan writes below; all end with the boot.
const (
	RunDir     = "/run/writ"
	networkDir = "/run/systemd/network"
	timeDir    = "/run/systemd/timesyncd.conf.d"
)

// ImageKeysFile has the keys that may sign an image, as allowed_signers of
// ssh-keygen(1) has them.
const ImageKeysFile = RunDir + "/image-signers"

// UnsignedImagesFile is there on a machine that takes images without a signature.
const UnsignedImagesFile = RunDir + "/unsigned-images"

// Plan is what a configuration becomes on its machine.
type Plan struct {
	Hostname string
	Services []Service
	Files    []File
	// Warnings are for people: what is not done although the configuration says
	// so. They end with no newline.
	Warnings []string
}

// Service is a role that runs: its arguments and its environment.
type Service struct {
	Role Role
	Args []string
	Env  map[string]string // secrets
}

// File is a file to write, whole.
type File struct {
	Path string
	Data []byte
	Mode uint32
}

// Decide says what a configuration becomes.
func Decide(n Node, facts Facts) Plan {
	p := Plan{Hostname: cmp.Or(n.Hostname, n.NodeName, facts.Name)}
	common := []string{"--node-name", cmp.Or(n.NodeName, p.Hostname)}
	if n.NodeIP != "" {
		common = append(common, "--node-ip", n.NodeIP)
	}
	agent := Service{Role: Agent, Args: slices.Clone(common)}
	if n.Role == Server {
		p.Services = append(p.Services, p.server(n, common, facts))
	} else {
		agent.join(n)
	}
	p.Services = append(p.Services, agent)
	for _, s := range p.Services {
		p.add(RunDir+"/"+string(s.Role)+".env", s.env(), 0o600)
	}
	if n.Network != nil {
		for i, f := range n.Network.Interfaces {
			p.add(fmt.Sprintf("%s/20-writ-%02d.network", networkDir, i), f.unit(), 0o644)
		}
	}
	if len(n.TimeServers) > 0 {
		p.add(timeDir+"/20-writ.conf", "[Time]\nNTP="+strings.Join(n.TimeServers, " ")+"\n", 0o644)
	}
	if len(n.ImageKeys) > 0 {
		p.add(ImageKeysFile, signers(n.ImageKeys), 0o644)
	}
	if n.UnsignedImages {
		p.add(UnsignedImagesFile, "", 0o644)
		p.Warnings = append(p.Warnings, "this machine takes images that nobody has signed (unsignedImages): whoever may declare a NodeImage and a NodePool is root of it")
	}
	return p
}

func (p *Plan) add(path, data string, mode uint32) {
	p.Files = append(p.Files, File{path, []byte(data), mode})
}

// join says which cluster a machine joins. One that has joined needs none of it,
// and does not mind a token that has expired.
func (s *Service) join(n Node) {
	s.Args = append(s.Args, "--server", n.Server)
	if len(n.CAHashes) > 0 {
		s.Args = append(s.Args, "--ca-hash", strings.Join(n.CAHashes, ","))
	}
	s.Env = map[string]string{"WRIT_TOKEN": n.Token}
}

// server says how the control plane starts. Keys become files that only root
// reads, in memory: on the disk they are in the kept node.yaml alone.
func (p *Plan) server(n Node, common []string, facts Facts) Service {
	s := Service{Role: Server, Env: map[string]string{},
		Args: append(slices.Clone(common), "--listen", cmp.Or(n.Listen, "0.0.0.0:6443"))}
	if n.ExternalURL != "" {
		s.Args = append(s.Args, "--external-url", n.ExternalURL)
	}
	if !n.First() {
		s.join(n)
		return s
	}
	if n.Token != "" {
		s.Env["WRIT_AGENT_TOKEN"] = n.Token
	}
	p.authority(&s, n, facts)
	p.repository(&s, n)
	return s
}

// authority hands the server the authority that a cluster begins with. A machine
// that is a server keeps the one that it has: all credentials are of that.
func (p *Plan) authority(s *Service, n Node, facts Facts) {
	a := n.Authority
	switch {
	case a == nil:
	case facts.Authority == nil:
		const dir = RunDir + "/authority"
		s.Args = append(s.Args, "--authority", dir)
		p.add(dir+"/ca.crt", a.Certificate, 0o600)
		p.add(dir+"/ca.key", a.Key, 0o600)
	case !sameCertificate([]byte(a.Certificate), facts.Authority):
		p.Warnings = append(p.Warnings, "the authority of this cluster stays the one that it began with, in "+AuthorityFile+": that of "+Name+" does not count")
	}
}

// repository says which one the cluster follows.
func (p *Plan) repository(s *Service, n Node) {
	r := n.Repository
	if r == nil {
		return
	}
	for _, f := range []struct{ flag, value string }{
		{"--repo", r.URL}, {"--branch", r.Branch}, {"--path", r.Path}, {"--repo-user", r.Username},
	} {
		if f.value != "" {
			s.Args = append(s.Args, f.flag, f.value)
		}
	}
	for _, f := range []struct{ flag, name, value string }{
		{"--repo-ssh-key", "key", r.SSHKey}, {"--repo-known-hosts", "known_hosts", r.KnownHosts}, {"--repo-ca", "ca.crt", r.CA},
	} {
		if f.value != "" {
			path := RunDir + "/repository/" + f.name
			s.Args = append(s.Args, f.flag, path)
			p.add(path, strings.TrimRight(f.value, "\n")+"\n", 0o600)
		}
	}
	for name, value := range map[string]string{"WRIT_REPO_PASSWORD": r.Password, "WRIT_REPO_TOKEN": r.BearerToken} {
		if value != "" {
			s.Env[name] = value
		}
	}
}

// env is the service's environment file; see EnvironmentFile= of
// systemd.exec(5). WRIT_ARGS are the arguments: none has a blank or a quote,
// so that systemd splits them where they begin.
func (s Service) env() string {
	var b strings.Builder
	b.WriteString("WRIT_ARGS=" + quote(strings.Join(s.Args, " ")) + "\n")
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		b.WriteString(k + "=" + quote(s.Env[k]) + "\n")
	}
	return b.String()
}

// quote writes a value between double quotes, where four characters are
// escaped.
func quote(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(v) + `"`
}

// signers is a list of keys as allowed_signers of ssh-keygen(1): the comment
// of a key is the name of its owner.
func signers(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		f := strings.Fields(k)
		name := "image"
		if len(f) > 2 {
			name = strings.Join(f[2:], "-")
		}
		fmt.Fprintf(&b, "%s %s %s\n", name, f[0], f[1])
	}
	return b.String()
}

// unit is the interface as systemd.network(5) has it.
func (f Interface) unit() string {
	var b strings.Builder
	line := func(key string, values ...string) {
		for _, v := range values {
			if v != "" {
				b.WriteString(key + "=" + v + "\n")
			}
		}
	}
	b.WriteString("[Match]\n")
	line("Name", f.Match.Name)
	line("PermanentMACAddress", f.Match.MAC)
	b.WriteString("Kind=!*\n") // what the node itself makes is none of its business
	dhcp := len(f.Addresses) == 0
	if f.DHCP != nil {
		dhcp = *f.DHCP
	}
	if f.MTU > 0 {
		fmt.Fprintf(&b, "[Link]\nMTUBytes=%d\n", f.MTU)
	}
	b.WriteString("[Network]\n")
	if dhcp {
		b.WriteString("DHCP=yes\n")
	} else {
		b.WriteString("DHCP=no\nIPv6AcceptRA=no\n")
	}
	line("Address", f.Addresses...)
	line("Gateway", f.Gateway)
	line("DNS", f.DNS...)
	line("Domains", strings.Join(f.Domains, " "))
	if dhcp {
		b.WriteString("[DHCPv4]\nClientIdentifier=mac\n")
	}
	return b.String()
}
