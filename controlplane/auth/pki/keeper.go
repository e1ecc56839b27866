package pki

import (
	"context"
	"log/slog"
	"time"
)

// retry is how long the keeper waits when a file could not be written.
const retry = time.Minute

// Keeper keeps credential files fresh: it writes each again when two thirds of
// the certificate's life have passed.
type Keeper struct {
	Authority *Authority
	Files     []File
	Log       *slog.Logger

	due []time.Time
}

// WriteAll writes every file now, so that they exist before the server says
// that it is ready.
func (k *Keeper) WriteAll() error {
	k.due = make([]time.Time, len(k.Files))
	for i, f := range k.Files {
		pair, err := k.Authority.Write(f)
		if err != nil {
			return err
		}
		k.due[i] = pair.RenewAt()
	}
	return nil
}

// Run renews the files until ctx ends. A file that cannot be written now (a
// full disk) is tried again each minute: the old one is still good.
func (k *Keeper) Run(ctx context.Context) error {
	if k.due == nil {
		if err := k.WriteAll(); err != nil {
			return err
		}
	}
	for {
		next := time.Now().Add(24 * time.Hour)
		for _, t := range k.due {
			if t.Before(next) {
				next = t
			}
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		k.renew(time.Now())
	}
}

func (k *Keeper) renew(now time.Time) {
	for i, f := range k.Files {
		if k.due[i].After(now) {
			continue
		}
		pair, err := k.Authority.Write(f)
		if err != nil {
			k.Log.Error("credential not renewed", "file", f.Path, "err", err)
			k.due[i] = now.Add(retry)
			continue
		}
		k.Log.Info("credential renewed", "file", f.Path, "until", pair.Leaf.NotAfter)
		k.due[i] = pair.RenewAt()
	}
}
