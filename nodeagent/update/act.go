package update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/slot"
)

// errNoKeys is why an image is not taken on a machine that trusts nobody's.
var errNoKeys = errors.New("this machine takes no image, as its node.yaml names nobody who may sign one: add imageKeys, or unsignedImages: true to take any, with a higher generation")

// act does what was decided. What takes long becomes a job.
func (u *Updater) act(ctx context.Context, o Observed, a Action) error {
	switch a.Do {
	case Fetch, Stage:
		if len(u.cfg.Keys) == 0 && !u.cfg.Unsigned {
			return errNoKeys
		}
		u.begin(ctx, o, a)
		return nil
	case Reboot:
		return u.reboot(ctx, o, a)
	case GiveUp:
		return u.giveUp(ctx, o, a)
	case Keep:
		_, err := u.cfg.Slots.Switch(running(o.State))
		return err
	case Bless:
		u.log.Info("image is good", "node", u.cfg.NodeName, "image", runningName(o.State))
		return u.cfg.Slots.Bless()
	case Fail:
		return u.failed(*a.Failure)
	case Settle:
		u.record.Tried, u.record.Failed = nil, nil
		return u.record.write(u.cfg.Dir)
	case Forget:
		u.record.Tried, u.record.Failed = nil, nil
		if d := u.record.Damaged; d != nil && d.Told {
			// It may be tried again, as often as before.
			again := *d
			again.Times, again.Told = 0, false
			u.record.Damaged = &again
		}
		return errors.Join(u.record.write(u.cfg.Dir), u.fetcher.clean(Image{}))
	case Well:
		return u.cfg.Slots.Well()
	case Note:
		return u.noteDamage(o.State.Other())
	case Tell:
		told := *u.record.Damaged
		told.Told = true
		u.record.Damaged = &told
		u.log.Warn("disk damages images", "node", u.cfg.NodeName, "image", told.Version, "found", told.Found)
		return u.record.write(u.cfg.Dir)
	}
	return nil
}

func (u *Updater) failed(f Failure) error {
	u.log.Warn("image failed", "node", u.cfg.NodeName, "image", f.Image, "reason", f.Reason)
	u.record.Tried, u.record.Failed = nil, &f
	return u.record.write(u.cfg.Dir)
}

// noteDamage remembers that a copy is damaged. What was tried with it is no trial.
func (u *Updater) noteDamage(sl *slot.Slot) error {
	u.record.Damaged = u.record.Damaged.next(sl)
	if t := u.record.Tried; t != nil && t.RootHash == sl.RootHash {
		u.record.Tried = nil
	}
	u.log.Warn("image is damaged on the disk", "node", u.cfg.NodeName, "image", sl.Version, "slot", sl.Name, "found", sl.Damage, "times", u.record.Damaged.Times)
	return u.record.write(u.cfg.Dir)
}

// reboot lets the loader come to the image. What is tried is on the disk
// before: whatever runs next has to know it.
func (u *Updater) reboot(ctx context.Context, o Observed, a Action) error {
	u.record.Tried = &Try{Image: o.Image.Name, Version: o.Image.Version, Digest: o.Image.Digest, RootHash: a.Wanted.RootHash, Arguments: a.Wanted.Arguments}
	if err := u.record.write(u.cfg.Dir); err != nil {
		return err
	}
	if _, err := u.cfg.Slots.Switch(a.Wanted); err != nil {
		u.record.Tried = nil
		return errors.Join(err, u.record.write(u.cfg.Dir))
	}
	return u.goDown(ctx, a)
}

// giveUp leaves a system that does not become well.
func (u *Updater) giveUp(ctx context.Context, o Observed, a Action) error {
	t := u.record.Tried
	if w := running(o.State); t == nil || t.RootHash != w.RootHash || t.Arguments != w.Arguments {
		t = &Try{Image: o.Order.Image, Version: runningName(o.State), Digest: u.record.Known[w.RootHash], RootHash: w.RootHash, Arguments: w.Arguments}
	}
	t.Reason, u.record.Tried = o.Health.Why, t
	if err := u.record.write(u.cfg.Dir); err != nil {
		// The loader counts without it; only the reason is lost.
		u.log.Warn("reason not kept", "err", err)
	}
	return u.goDown(ctx, a)
}

func (u *Updater) goDown(ctx context.Context, a Action) error {
	u.log.Info("rebooting", "node", u.cfg.NodeName, "reason", a.Message)
	if err := u.cfg.Reboot(ctx, a.Message); err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	u.next = time.Now().Add(rebootWait)
	u.said = a.Message
	return nil
}

// stage writes the bundle into the other slot, and returns its root hash.
func (u *Updater) stage(ctx context.Context, i Image, progress func(done, total int64)) (string, error) {
	f, err := os.Open(u.fetcher.path(i, bundleSuffix))
	if err != nil {
		return "", fmt.Errorf("read download: %w", err)
	}
	defer f.Close()
	b, err := bundle.Read(f, bundle.Trust{Keys: u.cfg.Keys, Digest: i.Digest, Size: i.Size, Version: i.Version, Arch: u.cfg.Arch})
	if err != nil {
		return "", err
	}
	st, err := u.cfg.Slots.State()
	if err != nil {
		return "", fmt.Errorf("read slots: %w", err)
	}
	hash := b.Manifest().RootHash
	if hash == st.Running {
		// The same system in another wrapping, signed anew perhaps.
		return hash, b.Each(func(bundle.File, io.Reader) error { return ctx.Err() })
	}
	return hash, u.cfg.Slots.Install(ctx, b, progress)
}

// staged is what remains of a bundle that was written.
func (u *Updater) staged(i Image, rootHash string) error {
	u.log.Info("image is staged", "node", u.cfg.NodeName, "image", i.Name, "version", i.Version)
	known := map[string]string{}
	st, err := u.cfg.Slots.State()
	if err != nil {
		return fmt.Errorf("read slots: %w", err)
	}
	if digest, ok := u.record.Known[st.Running]; ok {
		known[st.Running] = digest
	}
	known[rootHash] = i.Digest
	u.record.Known = known
	if d := u.record.Damaged; d != nil && rootHash != st.Running {
		written := *d
		written.Open = false
		u.record.Damaged = &written
	}
	return errors.Join(u.record.write(u.cfg.Dir), u.fetcher.clean(Image{}))
}
