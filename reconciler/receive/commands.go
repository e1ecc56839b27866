package receive

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// command is one ref of a push as the client asked for it.
type command struct {
	ref
	old string // zeroSHA for none; the sha of ref is zeroSHA for a delete
}

func (c command) deletes() bool { return c.sha == zeroSHA }
func (c command) creates() bool { return c.old == zeroSHA }

// maxCommands bounds the refs of one push.
const maxCommands = 1000

// parseCommands reads what a push asks for, up to the flush before the pack.
// A request without commands is git's way to ask whether it is let in.
func parseCommands(p *packetReader) ([]command, capabilities, error) {
	var cmds []command
	var caps capabilities
	seen := make(map[string]bool)
	for {
		line, flush, err := p.text()
		if errors.Is(err, io.EOF) && len(cmds) == 0 {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read commands: %w", err)
		}
		if flush {
			return cmds, caps, nil
		}
		if strings.HasPrefix(line, "shallow ") {
			continue // the objects decide: a commit whose parents are missing is refused
		}
		if caps == nil {
			head, tail, _ := strings.Cut(line, "\x00")
			line, caps = strings.TrimSuffix(head, "\n"), parseCapabilities(tail)
		}
		c, err := parseCommand(line)
		if err != nil {
			return nil, nil, err
		}
		if seen[c.name] || len(cmds) == maxCommands {
			return nil, nil, fmt.Errorf("read commands: %s named twice, or more than %d refs", c.name, maxCommands)
		}
		seen[c.name] = true
		cmds = append(cmds, c)
	}
}

func parseCommand(line string) (command, error) {
	old, rest, _ := strings.Cut(line, " ")
	sha, name, ok := strings.Cut(rest, " ")
	if !ok || name == "" || !validSHA.MatchString(old) || !validSHA.MatchString(sha) || old == sha && sha == zeroSHA {
		return command{}, fmt.Errorf("read commands: %q is no command", line)
	}
	return command{ref: ref{name, sha}, old: old}, nil
}

// refuse returns why a command is refused whatever it brings, or "". now are
// the refs of the repository.
func (r *Remote) refuse(c command, now map[string]string, may rights) string {
	current, there := now[c.name]
	if reason := checkRefName(c.name); reason != "" && !(there && c.deletes() && reason == notUTF8) { // such as was pushed once can go
		return reason
	}
	switch {
	case !there && c.deletes():
		return "there is no such ref"
	case !there && !c.creates(), there && current != c.old:
		return "fetch first"
	case c.deletes() && c.name == r.branch() && !r.cfg.AllowForce && !may.delete:
		return "the cluster follows this branch; it cannot be deleted"
	case c.deletes() && r.protected(c.name) && !r.cfg.AllowForce && !may.delete:
		return "protected branch; it cannot be deleted"
	}
	for name := range now {
		if strings.HasPrefix(name, c.name+"/") || strings.HasPrefix(c.name, name+"/") {
			return "clashes with " + name
		}
	}
	return ""
}
