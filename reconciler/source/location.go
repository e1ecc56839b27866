package source

import (
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

// location is a repository's address. What it says of itself never has the
// user or the password that the address may carry.
type location struct {
	scheme string // https, http, ssh, file
	path   string // of file
	name   string // for messages and for knowing a clone again
	url    string // without user and password
	host   string // of ssh, with the port
	repo   string // path of ssh

	user, password string
}

// scpLike is user@host:path, as git understands it for SSH.
var scpLike = regexp.MustCompile(`^(?:([^@/\s]+)@)?(\[[^\]/\s]+\]|[^:/\s]+):([^\s].*)$`)

// parseURL reads an address in any of the forms that git takes. Its errors do
// not quote the address, which may have a password in it.
func parseURL(raw string) (location, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return location{}, problem(ErrConfig, "no repository is named: give a URL or a directory")
	}
	if !strings.Contains(raw, "://") {
		if m := scpLike.FindStringSubmatch(raw); m != nil && !isDir(raw) {
			return sshLocation(m[1], "", strings.Trim(m[2], "[]"), "", m[3]), nil
		}
		return location{scheme: "file", path: raw, name: raw}, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return location{}, problem(ErrConfig, "the repository's URL cannot be read: write it as https://host/path, ssh://git@host/path or file:///path")
	}
	password, _ := u.User.Password()
	switch u.Scheme {
	case "file":
		return location{scheme: "file", path: u.Path, name: u.Path}, nil
	case "ssh", "git+ssh":
		return sshLocation(u.User.Username(), password, u.Hostname(), u.Port(), u.Path), nil
	case "http", "https":
	default:
		return location{}, problem(ErrConfig, "a repository cannot be read over %s://: use https://, ssh:// or a directory", u.Scheme)
	}
	l := location{scheme: u.Scheme, user: u.User.Username(), password: password}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	l.url, l.name = u.String(), u.String()
	if u.Host == "" {
		return location{}, problem(ErrConfig, "the repository's URL has no host: write it as https://host/path")
	}
	if _, err := transport.NewEndpoint(l.url); err != nil {
		return location{}, problem(ErrConfig, "the repository's URL cannot be used: write it as https://host/path")
	}
	return l, nil
}

func sshLocation(user, password, host, port, repo string) location {
	if port == "" {
		port = "22"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	l := location{scheme: "ssh", user: user, password: password, host: host + ":" + port, repo: repo}
	l.name = "ssh://" + l.host + "/" + strings.TrimPrefix(repo, "/")
	return l
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
