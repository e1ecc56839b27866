package receive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/apiserver/pkg/authentication/user"
)

// mirrorUser is who pulls.
var mirrorUser = &user.DefaultInfo{Name: "mirror", Groups: []string{user.SystemPrivilegedGroup}}

// pull brings this repository into step with the other one, by the way of any
// push: quarantine, bounds, Check, refs.
func (m *mirror) pull(ctx context.Context) error {
	theirs, err := m.remote.Refs(ctx)
	if err != nil {
		return err
	}
	theirs = m.pick(theirs)
	if len(theirs) == 0 {
		return fmt.Errorf("%s has none of the refs %v: what is here is kept", m.remote.Name(), m.cfg.Refs)
	}
	now, err := m.repo.refs()
	if err != nil {
		return err
	}
	var cmds []command
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if old, there := now[name]; !there {
			cmds = append(cmds, command{ref: ref{name, theirs[name]}, old: zeroSHA})
		} else if old != theirs[name] {
			cmds = append(cmds, command{ref: ref{name, theirs[name]}, old: old})
		}
	}
	for name, old := range m.pick(now) {
		if _, still := theirs[name]; !still && m.cfg.Force {
			cmds = append(cmds, command{ref: ref{name, zeroSHA}, old: old})
		}
	}
	if len(cmds) > 0 {
		if err := m.take(ctx, cmds, now); err != nil {
			return err
		}
	}
	m.agreed(theirs)
	return nil
}

// take fetches what commands need and takes it in.
func (m *mirror) take(ctx context.Context, cmds []command, now map[string]string) error {
	wants, haves := m.missing(cmds, now)
	var in io.Reader = strings.NewReader("")
	if len(wants) > 0 {
		pack, err := m.remote.Fetch(ctx, wants, haves)
		if err != nil {
			return err
		}
		defer pack.Close()
		in = pack
	}
	may := rights{push: true, force: m.cfg.Force, delete: m.cfg.Force}
	a := reply{flush: func() error { return nil }, w: io.Discard, caps: capabilities{}}
	verdicts, err := m.of.takeIn(ctx, m.repo, cmds, in, a, mirrorUser, func(string) rights { return may })
	if err != nil {
		return fmt.Errorf("take in %s: %w", m.remote.Name(), err)
	}
	for _, v := range verdicts {
		if v.reason != "" {
			return fmt.Errorf("%s of %s is refused: %s", v.name, m.remote.Name(), v.reason)
		}
	}
	return nil
}

// missing are the objects that are not here, and the commits that are.
func (m *mirror) missing(cmds []command, now map[string]string) (wants, haves []string) {
	m.repo.packs.RLock()
	defer m.repo.packs.RUnlock()
	st := openObjects(m.repo.dir)
	defer st.Close()
	for _, c := range cmds {
		if !c.deletes() && st.HasEncodedObject(plumbing.NewHash(c.sha)) != nil && !slices.Contains(wants, c.sha) {
			wants = append(wants, c.sha)
		}
	}
	for _, sha := range now {
		if c, err := commitOrNil(st, peelTag(st, plumbing.NewHash(sha))); err == nil && c != nil {
			haves = append(haves, c.Hash.String())
		}
	}
	slices.Sort(haves)
	return wants, slices.Compact(haves)
}

// load reads what an earlier process knew. A file that cannot be read is as
// good as none: both sides are compared anew.
func (m *mirror) load() error {
	dir := filepath.Join(m.of.cfg.Dir, ".mirror")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, m.remote.Name(), m.cfg.Pull)
	m.file = filepath.Join(dir, fmt.Sprintf("%s-%016x.json", m.cfg.Repository, sum.Sum64()))
	b, err := os.ReadFile(m.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if json.Unmarshal(b, &m.status) != nil {
		m.status = MirrorStatus{}
	}
	m.status.Repository, m.status.URL, m.status.Pull = m.cfg.Repository, m.remote.Name(), m.cfg.Pull
	return nil
}

// agreed notes that both have the same refs.
func (m *mirror) agreed(refs map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Refs = refs
}

// note writes down how an exchange went and returns the failures in a row.
func (m *mirror) note(ctx context.Context, err error) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, was := &m.status, m.status
	if now := time.Now().UTC(); err == nil {
		s.InStep, s.Failing, s.Failures, s.Message = now, time.Time{}, 0, ""
	} else {
		if s.Failures++; s.Failing.IsZero() {
			s.Failing = now
		}
		s.Message = err.Error()
	}
	log := m.of.cfg.Log.With("repository", s.Repository, "mirror", s.URL)
	switch {
	case s.Message != "" && s.Message != was.Message:
		log.WarnContext(ctx, "mirror not in step", "err", err)
	case s.Message == "" && was.Message != "":
		log.InfoContext(ctx, "mirror in step again")
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		tmp := filepath.Join(m.repo.incoming, "mirror-"+filepath.Base(m.file))
		if err = writeFile(tmp, string(b)+"\n"); err == nil {
			err = os.Rename(tmp, m.file)
		}
	}
	if err != nil {
		log.WarnContext(ctx, "state of mirror not written", "err", err)
	}
	return s.Failures
}
