package nodeagent

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/nodeagent/image"
)

// imageLook is how often the disk of the images is looked at, as upstream.
const imageLook = 5 * time.Minute

// collectImages removes unused images when their disk is getting full.
func (a *Agent) collectImages(ctx context.Context) error {
	lastUsed := map[string]time.Time{}
	tick := time.NewTicker(imageLook)
	defer tick.Stop()
	for {
		if err := a.collectOnce(ctx, lastUsed); err != nil && ctx.Err() == nil {
			a.log.Warn("collect images", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (a *Agent) collectOnce(ctx context.Context, lastUsed map[string]time.Time) error {
	images, err := a.cfg.Runtime.Images(ctx)
	if err != nil {
		return err
	}
	containers, err := a.cfg.Runtime.List(ctx, "")
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, c := range containers {
		used[c.ImageID] = true
	}
	now := time.Now()
	var cs []image.Candidate
	for _, img := range images {
		if _, ok := lastUsed[img.ID]; !ok || used[img.ID] {
			lastUsed[img.ID] = now
		}
		cs = append(cs, image.Candidate{Image: img, LastUsed: lastUsed[img.ID], InUse: used[img.ID]})
	}
	var st unix.Statfs_t
	if err := unix.Statfs(existing(a.cfg.DataDir), &st); err != nil {
		return fmt.Errorf("measure disk: %w", err)
	}
	disk := image.Disk{Capacity: st.Blocks * uint64(st.Bsize), Available: st.Bavail * uint64(st.Bsize)}
	for _, c := range image.PlanGC(image.GCPolicy{}, disk, now, cs) {
		if err := a.cfg.Runtime.RemoveImage(ctx, c.ID); err != nil {
			return err
		}
		if err := a.pulls.Forget(c.ID); err != nil {
			return err
		}
		delete(lastUsed, c.ID)
		a.log.Info("removed unused image", "image", c.Names, "bytes", c.Size)
	}
	return nil
}
