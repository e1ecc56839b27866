// Package machine tells a machine who it is, at its start: it reads the places
// that a node.yaml comes from, and does what image/config decides.
//
// It watches the places as long as none has a file, or the file has mistakes.
// It owns /var/lib/writ/node.yaml and /var/lib/writ/name, what config.Plan names
// below /run, and /writ/node.yaml of the EFI system partition as far as secrets
// are erased from it. It promises that nothing is started on a machine that does
// not know who it is, that it says on the console what it is doing, and, when it
// cannot go on, why and what to do.
package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/writ-os/writ/image/config"
)

// Disks gives access to what is not mounted.
type Disks interface {
	// ESP mounts the EFI system partition while f runs; fs.ErrNotExist where
	// there is none.
	ESP(writable bool, f func(dir string) error) error
	// Volumes names what is attached and has a label of ours. A name changes
	// when another medium is put in.
	Volumes() ([]string, error)
	// Volume mounts one, to be read, while f runs.
	Volume(name string, f func(dir string) error) error
}

// Config is everything a Machine needs from outside.
type Config struct {
	// Root is put before every path, for tests; "" is the machine's own.
	Root string
	// Credentials is the directory of systemd's credentials; "" for none.
	Credentials string
	Disks       Disks
	// SetHostname gives the machine its name.
	SetHostname func(name string) error
	// Encrypted says whether /var is.
	Encrypted func() (bool, error)
	// Console is what people read.
	Console io.Writer
	// Every is the time between two looks while there is no file. Default 2s.
	Every time.Duration
}

// Machine is the one that is told.
type Machine struct {
	cfg  Config
	said map[string]bool // on the console
	esp  []byte          // what was on the EFI system partition
}

// New returns a machine; it starts nothing.
func New(cfg Config) *Machine {
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	return &Machine{cfg: cfg, said: map[string]bool{}}
}

// Run returns when the machine knows who it is, and everything that starts
// after it has its files. It waits for a file as long as there is none.
func (m *Machine) Run(ctx context.Context) error {
	last := "?"
	for {
		now, err := m.cfg.Disks.Volumes()
		if err != nil {
			return fmt.Errorf("look for volumes: %w", err)
		}
		// When all could be read, only another medium makes a difference.
		if names := strings.Join(now, "\n"); names != last {
			sources, all := m.sources(now)
			choice := config.Choose(sources, m.encrypted())
			done, err := m.act(choice)
			if done {
				return nil
			}
			if all && err == nil {
				last = names
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(m.cfg.Every):
		}
	}
}

// encrypted says whether /var is. While that cannot be seen it is taken to be.
func (m *Machine) encrypted() bool {
	if m.cfg.Encrypted == nil {
		return false
	}
	yes, err := m.cfg.Encrypted()
	return yes || err != nil
}

// act becomes what the choice says, or says why not. An error may pass.
func (m *Machine) act(c config.Choice) (done bool, err error) {
	if !c.Found || len(c.Findings) > 0 {
		m.say(waiting(c))
		return false, nil
	}
	if c.Node.Encryption != nil {
		// Before anything is kept: the secrets in it are what encryption is for.
		if yes, err := m.cfg.Encrypted(); err != nil || !yes {
			m.say(plain(c, err))
			return false, err
		}
	}
	if err := m.become(c); err != nil {
		m.say(failed(c, err))
		return false, err
	}
	return true, nil
}

// become does what the file says.
func (m *Machine) become(c config.Choice) error {
	steps, err := config.Persist(c, m.esp)
	if err != nil {
		return err
	}
	if err := m.keep(steps); err != nil {
		return err
	}
	if err := m.erase(steps); err != nil {
		// The machine works without; the next start tries again.
		m.say(fmt.Sprintf("the secrets on the EFI system partition are still there: %v", err))
	}
	name, err := m.name()
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(m.path(config.AuthorityFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the authority of the cluster: %w", err)
	}
	plan := config.Decide(c.Node, config.Facts{Name: name, Authority: authority})
	for _, f := range plan.Files {
		if err := m.write(f); err != nil {
			return err
		}
	}
	if err := m.cfg.SetHostname(plan.Hostname); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	m.say(started(c, plan, steps))
	return nil
}

func (m *Machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.cfg.Root, "/"}, parts...)...)
}

// name is what the machine is called when nobody says: chosen once, and kept.
func (m *Machine) name() (string, error) {
	path := m.path("var/lib/writ/name")
	b, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(b)) > 0 {
		return string(bytes.TrimSpace(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the machine's name: %w", err)
	}
	id, err := os.ReadFile(m.path("etc/machine-id"))
	if err != nil {
		return "", fmt.Errorf("read the machine's ID: %w", err)
	}
	name := config.NewName(string(id))
	if err := replace(path, []byte(name+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("keep the machine's name: %w", err)
	}
	return name, nil
}

// write makes a file that ends with the boot.
func (m *Machine) write(f config.File) error {
	path := m.path(f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // services of other users read below it
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.WriteFile(path, f.Data, os.FileMode(f.Mode)); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// say prints a message, once.
func (m *Machine) say(text string) {
	if m.said[text] {
		return
	}
	m.said[text] = true
	for line := range strings.Lines(text) {
		// The console may be raw: it needs both ends of a line.
		fmt.Fprintf(m.cfg.Console, "writ: %s\r\n", strings.TrimRight(line, "\n"))
	}
}
