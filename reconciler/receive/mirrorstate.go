package receive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/writ-os/writ/controlplane/durable"
)

// nameOf is an address without user and password, also of one that cannot be
// read.
func nameOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return u.String()
	}
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
	}
	_, after, ok := strings.Cut(address, "@") // user@host:path
	if !ok {
		return address
	}
	return after
}

// load reads what an earlier one knew. A file that cannot be read is as good as
// none: both sides are compared anew.
func (m *mirror) load() {
	sum := fnv.New64a()
	fmt.Fprint(sum, m.name, m.cfg.Pull)
	m.file = filepath.Join(m.of.cfg.Dir, ".mirror", fmt.Sprintf("%s-%016x.json", m.cfg.Repository, sum.Sum64()))
	b, err := os.ReadFile(m.file)
	if err == nil {
		err = json.Unmarshal(b, &m.status)
	}
	if err != nil {
		m.status = MirrorStatus{}
		if !errors.Is(err, fs.ErrNotExist) {
			m.of.cfg.Log.Warn("state of mirror not read", "repository", m.cfg.Repository, "mirror", m.name, "err", err)
		}
	}
	m.status.Repository, m.status.URL, m.status.Pull = m.cfg.Repository, m.name, m.cfg.Pull
}

// agreed notes that both have the same refs.
func (m *mirror) agreed(refs map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.status
	if s.InStep.IsZero() || !s.Failing.IsZero() || !maps.Equal(refs, s.Refs) {
		s.InStep = time.Now().UTC()
	}
	s.Refs = refs
}

// note writes down how an exchange went and returns the failures in a row.
func (m *mirror) note(ctx context.Context, err error) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, was := &m.status, m.status.Message
	if now := time.Now().UTC(); err == nil {
		s.Looked, s.Failing, s.Failures, s.Message = now, time.Time{}, 0, ""
	} else {
		m.failed++
		if s.Failures++; s.Failing.IsZero() {
			s.Failing = now
		}
		s.Message = brief(err.Error())
	}
	log := m.of.cfg.Log.With("repository", s.Repository, "mirror", s.URL)
	switch {
	case s.Message != "" && s.Message != was:
		log.WarnContext(ctx, "mirror not in step", "err", err)
	case s.Message == "" && was != "":
		log.InfoContext(ctx, "mirror in step again")
	}
	if err := m.save(); err != nil {
		log.WarnContext(ctx, "state of mirror not written", "err", err)
	}
	return s.Failures
}

func (m *mirror) save() error {
	b, err := json.MarshalIndent(&m.status, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(m.file, append(b, '\n'), 0o644)
}

// maxMessage bounds what is kept of an error, in bytes: it may quote the other
// host.
const maxMessage = 1000

func brief(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return strings.ToValidUTF8(message, "")
}
