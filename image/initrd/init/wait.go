//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/writ-os/writ/image/gpt"
)

// waitForPair looks at all disks, as they come, until one has the pair and the
// kernel has made devices of its partitions.
func waitForPair(opts options, modules *loader) (pair, error) {
	start := time.Now()
	said := false
	for {
		modules.devices()
		disks, looked := readDisks()
		p, ok := choosePair(disks, opts.data, opts.tree)
		if ok && exists(p.data) && exists(p.tree) {
			return p, nil
		}
		waited := time.Since(start)
		if waited > waitForDisk {
			return pair{}, fmt.Errorf("no disk has the partitions %s and %s of this image (%s); check that the disk is attached, or write the image to it again", opts.data, opts.tree, looked)
		}
		if waited > 2*time.Second && !said {
			said = true
			modules.all()
			tell("Waiting up to %d seconds for a disk with the partitions %s and %s of this image (%s).", waitForDisk/time.Second, opts.data, opts.tree, looked)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// readDisks reads the partition tables of all disks, and says in words which
// disks there are.
func readDisks() (disks []disk, looked string) {
	entries, err := os.ReadDir("/sys/block")
	if err != nil {
		return nil, err.Error()
	}
	var names []string
	for _, e := range entries {
		if !mayHoldImage(e.Name()) {
			continue
		}
		names = append(names, e.Name())
		// A disk without a table, or one that goes away, is looked at again.
		if table, err := readTable("/dev/" + e.Name()); err == nil {
			disks = append(disks, disk{e.Name(), table})
		}
	}
	if len(names) == 0 {
		return nil, "there is no disk at all"
	}
	return disks, "there are the disks " + strings.Join(names, ", ")
}

func readTable(path string) (gpt.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return gpt.Table{}, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return gpt.Table{}, err
	}
	return gpt.Parse(f, size)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
