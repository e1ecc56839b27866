package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/notify"
	"github.com/writ-os/writ/reconciler/page"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// betweenTimeout bounds the look at the history between two commits: to tell of
// those that came in together is not worth more.
const betweenTimeout = 10 * time.Second

// telling is how people are told of commits.
func (r *repository) telling(c client.Backend) notify.Config {
	n := notify.Config{Client: c, Cluster: r.cfg.Name, Between: r.between, Log: r.cfg.Log.With("part", "notify")}
	if base := r.cfg.pageURL(r.cfg.hostAddress()); base != "" {
		n.Page = func(c *v1alpha1.Commit) string { return base + "commits/" + url.PathEscape(c.Name) }
	}
	return n
}

// pageURL is where people find the page: what the flag says, or where the
// server listens if others reach it there; "" when they do not.
func (cfg Config) pageURL(machine netip.Addr) string {
	if cfg.ExternalURL != "" {
		u, err := url.JoinPath(cfg.ExternalURL, page.Prefix)
		if err != nil {
			return "" // refused with the flags
		}
		return u
	}
	if at := reachable(cfg.Listen, machine); at != "" {
		return "https://" + at + page.Prefix
	}
	return ""
}

// between names the commits that came to a branch after old and before head,
// newest first.
func (r *repository) between(repository, old, head string) ([]string, error) {
	src := r.source
	if repository != RepositoryName {
		f, ok := r.fleet.Follower(repository).(follower)
		if !ok {
			return nil, nil
		}
		src = f.source
	}
	return betweenIn(src, old, head)
}

func betweenIn(src *source.Source, old, head string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), betweenTimeout)
	defer cancel()
	nodes, err := src.Range(ctx, old, head)
	if err != nil {
		return nil, fmt.Errorf("read commits after %s: %w", old, err)
	}
	out := make([]string, 0, len(nodes))
	for _, n := range slices.Backward(nodes) {
		if n.SHA != head {
			out = append(out, n.SHA)
		}
	}
	return out, nil
}

// CheckExternalURL refuses what cannot be the address of a server.
func CheckExternalURL(s string) error {
	if s == "" {
		return nil
	}
	if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("--external-url: %q is not a URL such as https://writ.example.com", s)
	}
	return nil
}
