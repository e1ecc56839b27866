package trust

import (
	"fmt"
	"maps"
	"slices"
)

// changes finds out what each new commit decided itself.
type changes struct {
	h  History
	s  *stretch
	by map[string][]int // by path: the commits that decided it
}

// ownChanges returns, for each new commit, the paths of which it decided what
// they hold. Of a commit with one parent these are those that differ from it.
// A merge decides a path unless it only takes it over from the one side on
// which new commits, which are judged themselves, have changed it: a merge that
// brings back an old version, or drops what one side did, has decided.
func ownChanges(h History, s *stretch) ([][]string, error) {
	c := &changes{h: h, s: s, by: map[string][]int{}}
	own := make([][]string, len(s.commits))
	for i, o := range s.commits {
		paths, err := c.of(o)
		if err != nil {
			return nil, fmt.Errorf("compare %s with its parents: %w", short(o.sha), err)
		}
		slices.Sort(paths)
		for _, p := range paths {
			c.by[p] = append(c.by[p], i)
		}
		own[i] = paths
	}
	return own, nil
}

func (c *changes) of(o *object) ([]string, error) {
	switch len(o.parents) {
	case 0:
		return c.h.Changed("", o.sha)
	case 1:
		return c.h.Changed(o.parents[0], o.sha)
	}
	differs := make([]map[string]bool, len(o.parents)) // by parent
	every := map[string]bool{}
	for j, p := range o.parents {
		paths, err := c.h.Changed(p, o.sha)
		if err != nil {
			return nil, err
		}
		differs[j] = map[string]bool{}
		for _, path := range paths {
			differs[j][path], every[path] = true, true
		}
	}
	var out []string
	for _, path := range slices.Sorted(maps.Keys(every)) {
		if !c.takenOver(o, path, differs) {
			out = append(out, path)
		}
	}
	return out, nil
}

// takenOver says whether a merge has a path from a parent, and all parents that
// have another version of it have simply not seen the change.
func (c *changes) takenOver(o *object, path string, differs []map[string]bool) bool {
	for i := range o.parents {
		if differs[i][path] {
			continue // not the version of this parent
		}
		explained := true
		for j := range o.parents {
			if !differs[j][path] {
				continue
			}
			if !c.changedBeyond(o.parents[i], o.parents[j], path) || c.changedBeyond(o.parents[j], o.parents[i], path) {
				explained = false
				break
			}
		}
		if explained {
			return true
		}
	}
	return false
}

// changedBeyond says whether a new commit that a reaches and b does not has
// changed a path.
func (c *changes) changedBeyond(a, b, path string) bool {
	return slices.ContainsFunc(c.by[path], func(i int) bool { return c.s.reaches(a, i) && !c.s.reaches(b, i) })
}

// reaches says whether new commit i is in the history of a commit, or is it.
func (s *stretch) reaches(sha string, i int) bool {
	at, ok := s.in[sha]
	if !ok || i > at {
		return false
	}
	// Parents stand before children, so all that is needed is filled from the
	// first on; recursion would be as deep as the history.
	for k := len(s.reach); k <= at; k++ {
		set := make([]uint64, k/64+1)
		set[k/64] |= 1 << (k % 64)
		for _, p := range s.commits[k].parents {
			if j, ok := s.in[p]; ok {
				for w, bits := range s.reach[j] {
					set[w] |= bits
				}
			}
		}
		s.reach = append(s.reach, set)
	}
	return s.reach[at][i/64]&(1<<(i%64)) != 0
}
