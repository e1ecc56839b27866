package settings

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/writ-os/writ/nodeagent/settings/disk"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// mountTime bounds how long pods wait for disks when the agent starts.
const mountTime = 2 * time.Minute

// applyDisks reads, decides and acts until there is nothing to do, and says what
// could not be done.
func (s *Settings) applyDisks(ctx context.Context, want []disk.Wanted) []string {
	if len(want)+len(s.record.Disks) == 0 {
		return nil
	}
	// A disk is grown once in a look: one that cannot be, or not by all of its
	// room, is used as it is, and holds up no other change.
	grown, small := map[string]bool{}, []string(nil)
	for range maxTurns {
		p, err := s.decideDisks(want)
		if err != nil {
			return []string{err.Error()}
		}
		changes := slices.DeleteFunc(p.Changes, func(c disk.Change) bool { return c.Do == disk.Grow && grown[c.Name] })
		if len(changes) == 0 {
			return slices.Concat(p.Problems, small)
		}
		var failed []string
		for _, c := range changes {
			err := s.doDisk(ctx, c)
			switch {
			case c.Do == disk.Grow:
				grown[c.Name] = true
				if err != nil {
					small = append(small, fmt.Sprintf("disk %s: %s", c.Name, err))
				}
			case err != nil:
				failed = append(failed, fmt.Sprintf("disk %s: %s", c.Name, err))
			}
		}
		if len(failed) > 0 {
			return slices.Concat(p.Problems, failed, small)
		}
	}
	return []string{"disks do not stay as they are set: something else on this node changes them"}
}

func (s *Settings) decideDisks(want []disk.Wanted) (disk.Plan, error) {
	disks, err := s.cfg.Disks.Disks()
	if err != nil {
		return disk.Plan{}, err
	}
	return disk.Decide(disk.Observed{Wanted: want, Known: s.record.Disks, Disks: disks}), nil
}

// mountDisks mounts what was mounted when the agent ended, before pods begin.
// What it cannot do, Run tries again, and says.
func (s *Settings) mountDisks() {
	if len(s.record.Disks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mountTime)
	defer cancel()
	p, err := s.decideDisks(s.record.Wanted.Disks)
	for _, c := range p.Changes {
		if err == nil && c.Do == disk.Mount && s.record.Disks[c.Name].Made {
			err = s.doDisk(ctx, c)
		}
	}
	if err != nil {
		s.log.Warn("not all disks are mounted", "err", err)
	}
}

// doDisk makes one change. The record has it before the disk has.
func (s *Settings) doDisk(ctx context.Context, c disk.Change) error {
	m := &s.cfg.Disks
	switch c.Do {
	case disk.Format:
		return s.format(ctx, c)
	case disk.Remember:
		return s.know(c.Name, disk.Known{UUID: c.UUID, Made: true})
	case disk.Forget:
		return s.forget(c.Name)
	case disk.Mount:
		if err := s.know(c.Name, disk.Known{UUID: c.UUID, Made: true}); err != nil {
			return err
		}
		if err := s.stepped(func() error { return m.Mount(ctx, c.Device, c.Name) }); err != nil {
			return err
		}
		s.log.Info("disk mounted", "name", c.Name, "device", c.Device, "uuid", c.UUID, "at", v1alpha1.DiskPath(c.Name))
	case disk.Grow:
		return s.stepped(func() error { return s.grow(c) })
	case disk.Unmount:
		if err := s.stepped(func() error { return m.Unmount(c.Name) }); err != nil {
			return err
		}
		s.log.Info("disk unmounted: it is not declared any more, and keeps what it holds", "name", c.Name, "device", c.Device)
	}
	return nil
}

// grow says what it has done, if that is anything.
func (s *Settings) grow(c disk.Change) error {
	before, after, err := s.cfg.Disks.Grow(c.Device, c.Name, c.Bytes)
	if err == nil && after > before {
		s.log.Info("disk grown", "name", c.Name, "device", c.Device, "uuid", c.UUID, "before", before, "bytes", after)
	}
	return err
}

// format makes a file system in steps of which each may be the last: what is on
// the disk then, with the record, says that it is to be begun again.
func (s *Settings) format(ctx context.Context, c disk.Change) error {
	m, id := &s.cfg.Disks, c.UUID
	if id == "" {
		id = uuid.NewString()
	}
	s.log.Info("disk is given a file system", "name", c.Name, "device", c.Device, "uuid", id)
	if err := s.know(c.Name, disk.Known{UUID: id}); err != nil {
		return err
	}
	for _, do := range []func() error{
		func() error { return m.Begin(c.Device, id) },
		func() error { return m.Make(ctx, c.Device, c.Name, id) },
		func() error { return m.End(c.Device, id) },
	} {
		if err := s.stepped(do); err != nil {
			return err
		}
	}
	return s.know(c.Name, disk.Known{UUID: id, Made: true})
}

func (s *Settings) stepped(do func() error) error {
	if err := s.cfg.step(); err != nil {
		return err
	}
	return do()
}

// know remembers a disk.
func (s *Settings) know(name string, k disk.Known) error {
	old, had := s.record.Disks[name]
	if had && old == k && !s.unsaved {
		return nil
	}
	if s.record.Disks == nil {
		s.record.Disks = map[string]disk.Known{}
	}
	s.record.Disks[name] = k
	err := s.keep()
	if err != nil && had {
		s.record.Disks[name] = old
	} else if err != nil {
		delete(s.record.Disks, name)
	}
	return err
}

func (s *Settings) forget(name string) error {
	delete(s.record.Disks, name)
	return s.keep() // or with the next turn
}
