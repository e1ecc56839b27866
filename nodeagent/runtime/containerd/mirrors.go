package containerd

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
)

// mirrorDial bounds how long a mirror that is away holds up each request.
const mirrorDial = 3 * time.Second

func mirrorClient() *http.Client {
	t := docker.DefaultHTTPTransport(nil)
	t.DialContext = (&net.Dialer{Timeout: mirrorDial, KeepAlive: 30 * time.Second}).DialContext
	return &http.Client{Transport: t}
}

// hosts says where the images of a registry are asked for: at its mirrors, in
// their order, and where none of them answers with it, at the registry itself.
// That alone is shown the credentials.
func (r *Runtime) hosts(auth docker.Authorizer) docker.RegistryHosts {
	itself := docker.ConfigureDefaultRegistries(docker.WithAuthorizer(auth), docker.WithPlainHTTP(docker.MatchLocalhost))
	return func(registry string) ([]docker.RegistryHost, error) {
		last, err := itself(registry)
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
			h.Client = r.mirrors
			// Some give tokens to anybody.
			h.Authorizer = docker.NewDockerAuthorizer(docker.WithAuthClient(r.mirrors))
			out = append(out, h)
		}
		return append(out, last...), nil
	}
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
