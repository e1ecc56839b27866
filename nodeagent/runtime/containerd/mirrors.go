package containerd

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// endpoint is what is declared of a host; nil is nothing.
func (r *Runtime) endpoint(host string) *image.Endpoint {
	if r.cfg.Endpoint == nil {
		return nil
	}
	return r.cfg.Endpoint(host)
}

// hostsWith says where an image is asked for: at the mirrors of its registry, in
// their order, and where none of them answers with it, at the registry itself.
// That alone is shown the credentials; a mirror is shown its own. with may change
// what asks them.
func (r *Runtime) hostsWith(ref string, creds image.Credentials, with func(*http.Client) *http.Client) docker.RegistryHosts {
	return func(registry string) ([]docker.RegistryHost, error) {
		e := r.endpoint(registry)
		c := with(r.clients.of(registry, e, false))
		last, err := docker.ConfigureDefaultRegistries(
			docker.WithClient(c), docker.WithAuthorizer(authorizer(c, creds)),
			docker.WithPlainHTTP(func(host string) (bool, error) {
				local, err := docker.MatchLocalhost(host)
				return local && !e.TLS(), err
			}))(registry)
		if err != nil || r.cfg.Mirrors == nil {
			return last, err
		}
		var out []docker.RegistryHost
		for _, m := range r.cfg.Mirrors(registry) {
			h, err := mirrorHost(m)
			if err != nil {
				r.log.Warn("leave out mirror", "registry", registry, "err", err)
				continue
			}
			r.authorize(&h, v1alpha1.MirrorHost(m), ref, with)
			out = append(out, h)
		}
		return append(out, last...), nil
	}
}

// authorize gives a mirror what is declared of its host. Without encryption it
// is shown nothing.
func (r *Runtime) authorize(h *docker.RegistryHost, host, ref string, with func(*http.Client) *http.Client) {
	var e *image.Endpoint
	if h.Scheme == "https" {
		e = r.endpoint(host)
	}
	h.Client = with(r.clients.of(host, e, true))
	_, repo, _ := strings.Cut(ref, "/")
	var creds image.Credentials
	if all := e.Credentials(host + "/" + repo); len(all) > 0 {
		creds = all[0]
	}
	h.Authorizer = authorizer(h.Client, creds) // some give tokens to anybody
}

func authorizer(c *http.Client, creds image.Credentials) docker.Authorizer {
	return docker.NewDockerAuthorizer(docker.WithAuthClient(c), docker.WithAuthCreds(func(string) (string, string, error) {
		return creds.Username, creds.Password, nil
	}))
}

// mirrorHost reads the URL of a mirror. The API is at /v2 below its path, unless
// that has /v2 in it already, as containerd's hosts.toml has it with and without
// override_path.
func mirrorHost(mirror string) (docker.RegistryHost, error) {
	u, err := url.Parse(mirror)
	if err != nil {
		return docker.RegistryHost{}, fmt.Errorf("read URL of mirror: %w", err)
	}
	if u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return docker.RegistryHost{}, fmt.Errorf("read URL of mirror %q: want https://host or http://host", u.Redacted())
	}
	at := path.Clean("/" + u.Path)
	if !strings.Contains(at+"/", "/v2/") {
		at = path.Join(at, "v2")
	}
	return docker.RegistryHost{Scheme: u.Scheme, Host: u.Host, Path: at, Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve}, nil
}
