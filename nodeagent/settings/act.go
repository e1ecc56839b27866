package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
)

// keep writes the record. One that could not be written is written with the next
// turn.
func (s *Settings) keep() error {
	err := s.cfg.step()
	if err == nil {
		err = s.record.write(s.cfg.Dir)
	}
	s.unsaved = err != nil
	return err
}

// act carries out a plan and says what failed. What sysctls were before is on the
// disk before the first of them changes, and is forgotten after the last was
// given back.
func (s *Settings) act(ctx context.Context, o Observed, p Plan) []string {
	if err := s.remember(o, p); err != nil {
		return []string{err.Error()}
	}
	var failed []string
	for _, c := range p.Changes {
		if err := s.cfg.step(); err != nil {
			return append(failed, err.Error())
		}
		if why := s.do(ctx, c); why != "" {
			failed = append(failed, why)
		}
	}
	if err := s.keep(); err != nil {
		failed = append(failed, err.Error())
	}
	return failed
}

// remember notes what is there before it is changed. What is not on the disk is
// not remembered.
func (s *Settings) remember(o Observed, p Plan) error {
	old, all := s.record.Sysctls, maps.Clone(s.record.Sysctls)
	if all == nil {
		all = map[string]Remembered{}
	}
	for _, c := range p.Changes {
		if _, have := all[c.Name]; have || c.Do != SetSysctl {
			continue
		}
		before := map[string]string{c.Name: o.Sysctls[c.Name].Value}
		if twin := twins[c.Name]; twin != "" && o.Sysctls[twin].Err == nil {
			before[twin] = o.Sysctls[twin].Value
		}
		all[c.Name] = Remembered{Before: before}
	}
	if len(all) == len(old) {
		return nil
	}
	s.record.Sysctls = all
	err := s.keep()
	if err != nil {
		s.record.Sysctls = old
	}
	return err
}

// do makes one change, and says why it could not; the record is changed with it,
// and written by the caller.
func (s *Settings) do(ctx context.Context, c Change) string {
	switch c.Do {
	case SetSysctl:
		return s.set(c)
	case ResetSysctl:
		if err := s.sysctls.write(c.At, c.Value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s; it cannot be given back its value of before, %q, until the node reboots", sysctlError(c.At, c.Value, err), c.Value)
		}
		s.log.Info("sysctl is as it was", "name", nameOf(c.At), "value", c.Value)
		delete(s.record.Sysctls, c.Name)
	case ForgetSysctl:
		delete(s.record.Sysctls, c.Name)
	case SetServers:
		return s.setServers(ctx, c.Value)
	}
	return ""
}

func (s *Settings) set(c Change) string {
	r := s.record.Sysctls[c.Name]
	if err := s.sysctls.write(c.At, c.Value); err != nil {
		if now := s.sysctls.read(c.Name); r.Set == nil && now.Value == r.Before[c.Name] {
			delete(s.record.Sysctls, c.Name) // there is nothing to be given back
		}
		return sysctlError(c.At, c.Value, err)
	}
	now := s.sysctls.read(c.Name)
	if now.Err != nil {
		return sysctlError(c.Name, "", now.Err)
	}
	r.Set, r.Reads = &c.Value, now.Value
	s.record.Sysctls[c.Name] = r
	s.log.Info("sysctl set", "name", nameOf(c.Name), "value", c.Value, "before", r.Before[c.Name])
	return ""
}

func (s *Settings) setServers(ctx context.Context, content string) string {
	if err := writeServers(s.cfg.Run, content); err != nil {
		return err.Error()
	}
	// Where it does not run it reads them when it starts.
	if t, err := readTime(s.cfg.Run); err == nil && !t.Synced {
		s.record.Servers = content
		return ""
	}
	if err := s.cfg.step(); err != nil {
		return err.Error()
	}
	if err := s.cfg.Restart(ctx, timesyncUnit); err != nil {
		return err.Error()
	}
	s.record.Servers = content
	s.log.Info("time servers set", "servers", s.record.Wanted.TimeServers)
	return ""
}
