package join

import (
	"log/slog"
	"slices"
	"testing"
)

// TestHosts: a node asks for no address of a server, which nobody signs.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers []string
		want    []string
	}{
		{"https://192.0.2.1:6443", nil, []string{"192.0.2.9"}},
		{"https://192.0.2.9:6443", nil, nil},
		{"https://writ.example.com:6443", []string{"192.0.2.1:6443", "192.0.2.9:6443"}, nil},
		{"https://127.0.0.1:6443", nil, nil},
		{"https://localhost:6443", nil, nil},
		{"https://[::1]:6443", nil, nil},
	} {
		m := &Member{cfg: Config{Hosts: []string{"192.0.2.9"}}, servers: newServers("", c.name, nil, slog.New(slog.DiscardHandler))}
		m.servers.Learn(append(m.servers.snapshot(), c.servers...))
		if got := m.hosts(); !slices.Equal(got, c.want) {
			t.Errorf("%s, %v: %v, want %v", c.name, c.servers, got, c.want)
		}
	}
}
