package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/writ-os/writ/controlplane/durable"
)

// The files of resolv.
const (
	stateFile  = "run/systemd/netif/state"
	resolvFile = "run/writ/resolv.conf"
)

// maxServers and maxDomains are what the resolver of the C library takes; see
// resolv.conf(5).
const (
	maxServers = 3
	maxDomains = 6
)

// resolvConf makes a resolv.conf of the state file of systemd-networkd, whose
// lines DNS= and DOMAINS= have what interfaces were given and have asked for.
func resolvConf(state string) string {
	var servers, domains []string
	for line := range strings.Lines(state) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"`)
		switch key {
		case "DNS":
			for _, s := range strings.Fields(value) {
				server, _, _ := strings.Cut(s, "#") // the name for TLS
				servers = append(servers, server)
			}
		case "DOMAINS":
			domains = strings.Fields(value)
		}
	}
	var b strings.Builder
	b.WriteString("# What systemd-networkd knows. Written again whenever that changes.\n")
	for _, s := range servers[:min(len(servers), maxServers)] {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(domains) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(domains[:min(len(domains), maxDomains)], " "))
	}
	return b.String()
}

// WriteResolvConf writes /run/writ/resolv.conf, which /etc/resolv.conf of the
// image leads to. root is put before paths, for tests.
func WriteResolvConf(root string) error {
	from, to := filepath.Join(root, "/", stateFile), filepath.Join(root, "/", resolvFile)
	for last, first := "", true; ; first = false {
		b, err := os.ReadFile(from)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read state of the network: %w", err)
		}
		// What changes while this is at work may be told to nobody.
		if !first && string(b) == last {
			return nil
		}
		last = string(b)
		if err := writeResolvConf(to, resolvConf(last)); err != nil {
			return fmt.Errorf("write resolv.conf: %w", err)
		}
	}
}

func writeResolvConf(to, content string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // for every process to read
		return err
	}
	return durable.Replace(to, []byte(content), 0o644)
}
