package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// Server is one of several servers of the cluster.
type Server struct {
	Name string `json:"name"`
	// Role is leader, follower, or joining until it has a vote.
	Role  string `json:"role"`
	Ready bool   `json:"ready"`
}

// servers are those of the cluster; none when there is one, or who asks may not
// know.
func (o Options) servers(ctx context.Context) []Server {
	if o.Servers == nil {
		return nil
	}
	all, err := o.Servers(ctx)
	if err != nil || len(all) < 2 {
		return nil // the commit is what was asked for
	}
	return all
}

// serversText writes the servers for people.
func serversText(b *strings.Builder, o Options, all []Server) {
	width := 0
	for _, s := range all {
		width = max(width, len(s.title()))
	}
	label := "servers"
	for _, s := range all {
		ready := "ready"
		if !s.Ready {
			ready = paint(o, red, "not ready")
		}
		fmt.Fprintf(b, "%-10s  %-*s  %-8s  %s\n", label, width, s.title(), s.Role, ready)
		label = ""
	}
}

func (s *Server) title() string { return cmp.Or(s.Name, "(not started)") }
