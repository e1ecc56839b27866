package image

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Keyring finds the credentials for an image among those of pull secrets.
type Keyring struct{ entries []keyringEntry }

type keyringEntry struct {
	host, path string
	creds      Credentials
}

type dockerConfig struct {
	Auths map[string]dockerAuth `json:"auths"`
}

type dockerAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"`
}

// NewKeyring reads pull secrets. Secrets of other types are left out; one that
// cannot be parsed is an error.
func NewKeyring(secrets []*corev1.Secret) (*Keyring, error) {
	k := &Keyring{}
	for _, s := range secrets {
		var cfg dockerConfig
		var err error
		switch s.Type {
		case corev1.SecretTypeDockerConfigJson:
			err = json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &cfg)
		case corev1.SecretTypeDockercfg:
			err = json.Unmarshal(s.Data[corev1.DockerConfigKey], &cfg.Auths)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("parse pull secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		for server, a := range cfg.Auths {
			c, err := a.credentials()
			if err != nil {
				return nil, fmt.Errorf("parse pull secret %s/%s: auth of %s: %w", s.Namespace, s.Name, server, err)
			}
			host, p := splitServer(server)
			k.entries = append(k.entries, keyringEntry{host, p, c})
		}
	}
	// The most specific path first, as upstream; equal ones in a stable order.
	sort.SliceStable(k.entries, func(i, j int) bool {
		a, b := k.entries[i], k.entries[j]
		if len(a.path) != len(b.path) {
			return len(a.path) > len(b.path)
		}
		return a.host+a.path+a.creds.Username < b.host+b.path+b.creds.Username
	})
	return k, nil
}

func (a dockerAuth) credentials() (Credentials, error) {
	if a.Auth == "" {
		return Credentials{a.Username, a.Password}, nil
	}
	b, err := base64.StdEncoding.DecodeString(a.Auth)
	if err != nil {
		if b, err = base64.RawStdEncoding.DecodeString(a.Auth); err != nil {
			return Credentials{}, err
		}
	}
	user, password, ok := strings.Cut(string(b), ":")
	if !ok {
		return Credentials{}, fmt.Errorf("not user:password")
	}
	return Credentials{user, password}, nil
}

// splitServer takes "https://index.docker.io/v1/" and "quay.io/team" apart.
func splitServer(server string) (host, p string) {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return server, ""
	}
	p = strings.Trim(u.Path, "/")
	if p == "v1" || p == "v2" {
		p = ""
	}
	if host = u.Host; host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	return host, p
}

// For returns the credentials to try for a normalised reference, best first.
func (k *Keyring) For(ref string) []Credentials {
	host, repo, _ := strings.Cut(ref, "/")
	var out []Credentials
	for _, e := range k.entries {
		if !matchHost(e.host, host) {
			continue
		}
		if e.path == "" || repo == e.path || strings.HasPrefix(repo, e.path+"/") || strings.HasPrefix(repo, e.path+":") {
			out = append(out, e.creds)
		}
	}
	return out
}

// of is what a keyring has for one host.
func (k *Keyring) of(host string) *Keyring {
	out := &Keyring{}
	for _, e := range k.entries {
		if matchHost(e.host, host) {
			out.entries = append(out.entries, e)
		}
	}
	return out
}

// matchHost matches "*.example.com" label by label.
func matchHost(pattern, host string) bool {
	p, h := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(p) != len(h) {
		return false
	}
	for i := range p {
		if ok, err := path.Match(p[i], h[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
