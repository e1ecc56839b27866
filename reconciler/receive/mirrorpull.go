package receive

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

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
		return fmt.Errorf("%s has none of the refs %v: what is here is kept", m.name, m.cfg.Refs)
	}
	now, err := m.repo.refs()
	if err != nil {
		return err
	}
	var cmds []command
	for name, old := range m.pick(now) { // first: a branch a is in the way of a/b
		if _, still := theirs[name]; !still && m.cfg.Force {
			cmds = append(cmds, command{ref: ref{name, zeroSHA}, old: old})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if old, there := now[name]; !there {
			cmds = append(cmds, command{ref: ref{name, theirs[name]}, old: zeroSHA})
		} else if old != theirs[name] {
			cmds = append(cmds, command{ref: ref{name, theirs[name]}, old: old})
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
		return fmt.Errorf("take in %s: %w", m.name, err)
	}
	for _, v := range verdicts {
		if v.reason != "" {
			return fmt.Errorf("%s of %s is refused: %s", v.name, m.name, strings.Join(append([]string{v.reason}, v.lines...), "; "))
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
	return wants, commitsOf(st, now)
}

// commitsOf are the commits that refs lead to.
func (repo *repository) commitsOf(refs map[string]string) []string {
	repo.packs.RLock()
	defer repo.packs.RUnlock()
	st := openObjects(repo.dir)
	defer st.Close()
	return commitsOf(st, refs)
}

func commitsOf(st *objects, refs map[string]string) (all []string) {
	for _, sha := range refs {
		if c, err := commitOrNil(st, peelTag(st, plumbing.NewHash(sha))); err == nil && c != nil {
			all = append(all, c.Hash.String())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
