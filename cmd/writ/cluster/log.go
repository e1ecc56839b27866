package cluster

import "log/slog"

// log is the log of one part.
func (p *ControlPlane) log(part string) *slog.Logger { return p.cfg.Log.With("part", part) }
