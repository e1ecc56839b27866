package disk

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Observed is everything that is decided from.
type Observed struct {
	Wanted []Wanted
	Known  map[string]Known
	Disks  []Disk
}

// Do is one thing to do.
type Do string

// What can be done.
const (
	Format   Do = "Format"
	Mount    Do = "Mount"
	Grow     Do = "Grow" // the file system, to what its disk has
	Unmount  Do = "Unmount"
	Remember Do = "Remember" // that it is there, and whole
	Forget   Do = "Forget"
)

// Change is a Do with what it is done to.
type Change struct {
	Do Do
	// Name of what is declared.
	Name string
	// Device is its file; "" of Forget.
	Device string
	// UUID of the file system; "" of a Format that begins.
	UUID string
	// Bytes are how far it is to Grow.
	Bytes int64
}

// Plan is what is to be done, in this order, and what cannot be.
type Plan struct {
	Changes  []Change
	Problems []string
}

// Decide compares what is declared with what is.
func Decide(o Observed) Plan {
	var p Plan
	p.undeclared(o)
	taken := map[string]bool{}
	for i := range o.Wanted {
		w := &o.Wanted[i]
		change, why := decideOne(o, w, taken)
		if why != "" {
			p.Problems = append(p.Problems, fmt.Sprintf("disk %s: %s", w.Name, why))
		}
		if change.Do != "" {
			change.Name = w.Name
			p.Changes = append(p.Changes, change)
			taken[change.Device] = true
		}
	}
	return p
}

// undeclared lets go of what is not declared any more.
func (p *Plan) undeclared(o Observed) {
	for _, name := range slices.Sorted(maps.Keys(o.Known)) {
		if slices.ContainsFunc(o.Wanted, func(w Wanted) bool { return w.Name == name }) {
			continue
		}
		change := Change{Do: Forget, Name: name}
		for i := range o.Disks {
			d := &o.Disks[i]
			switch {
			case slices.Contains(d.Mounts, v1alpha1.DiskPath(name)):
				change = Change{Do: Unmount, Name: name, Device: d.Device()}
			case d.Content.UUID == o.Known[name].UUID && d.Busy && change.Do == Forget:
				p.Problems = append(p.Problems, fmt.Sprintf("disk %s: it is not declared any more, and pods that began before still use %s", name, d.Device()))
				change.Do = ""
			}
		}
		if change.Do != "" {
			p.Changes = append(p.Changes, change)
		}
	}
}

func decideOne(o Observed, w *Wanted, taken map[string]bool) (Change, string) {
	known := o.Known[w.Name]
	var ours []*Disk
	for i := range o.Disks {
		d := &o.Disks[i]
		if slices.Contains(d.Mounts, v1alpha1.DiskPath(w.Name)) {
			return mounted(d, w, known)
		}
		if d.Content.Kind == Ext4 && d.Content.Label == v1alpha1.DiskLabel(w.Name) {
			ours = append(ours, d)
		}
	}
	switch len(ours) {
	case 0:
		return anew(o, w, known, taken)
	case 1:
		return there(ours[0], w, known)
	}
	return Change{}, fmt.Sprintf("%s have file systems labelled %s: take away all but one", names(ours), v1alpha1.DiskLabel(w.Name))
}

func mounted(d *Disk, w *Wanted, known Known) (Change, string) {
	switch {
	case d.Content.Label != v1alpha1.DiskLabel(w.Name):
		return Change{}, fmt.Sprintf("%s is mounted at %s, and is another disk", d.Device(), v1alpha1.DiskPath(w.Name))
	case known.UUID != d.Content.UUID || !known.Made:
		return Change{Do: Remember, Device: d.Device(), UUID: d.Content.UUID}, ""
	case !Matches(&w.Match, d):
		return Change{}, fmt.Sprintf("%s is mounted, and is not what is declared", d.Device())
	case d.Content.Bytes > d.Bytes:
		return Change{}, tooSmall(d)
	case markAt(d.Bytes)-d.Content.Bytes >= growFrom:
		return Change{Do: Grow, Device: d.Device(), UUID: d.Content.UUID, Bytes: markAt(d.Bytes)}, ""
	}
	return Change{}, ""
}

// tooSmall says that a disk has lost its end.
func tooSmall(d *Disk) string {
	return fmt.Sprintf("%s has become smaller than its file system (%d bytes of %d): give it back the size that it had", d.Device(), d.Bytes, d.Content.Bytes)
}

// there decides about a disk that is labelled for what is declared.
func there(d *Disk, w *Wanted, known Known) (Change, string) {
	c := &d.Content
	switch {
	case d.Unfit != "":
		return Change{}, fmt.Sprintf("%s is labelled %s, and %s", d.Device(), c.Label, d.Unfit)
	case known.UUID != "" && known.UUID != c.UUID:
		return Change{}, fmt.Sprintf("%s is labelled %s, and is another disk than that of this node, which has the UUID %s", d.Device(), c.Label, known.UUID)
	case !Matches(&w.Match, d):
		return Change{}, fmt.Sprintf("%s is labelled %s, and is not what is declared", d.Device(), c.Label)
	case len(d.Mounts) > 0:
		return Change{}, fmt.Sprintf("%s is mounted at %s", d.Device(), d.Mounts[0])
	case c.Bytes > d.Bytes: // the kernel would not mount it, and e2fsck speaks of blocks
		return Change{}, tooSmall(d)
	case c.Mark != "" && (known.UUID != c.Mark || known.Made):
		return Change{}, fmt.Sprintf("%s was begun to be formatted by another node", d.Device())
	case c.Mark != "" && d.Busy:
		return Change{}, d.Device() + " is in use"
	case c.Mark != "":
		return Change{Do: Format, Device: d.Device(), UUID: c.Mark}, ""
	}
	// One that is busy may be so by pods that had it before it was unmounted.
	return Change{Do: Mount, Device: d.Device(), UUID: c.UUID}, ""
}

// anew decides where no disk is labelled for what is declared.
func anew(o Observed, w *Wanted, known Known, taken map[string]bool) (Change, string) {
	if known.Made {
		return Change{}, fmt.Sprintf("the disk with the UUID %s is not there; to begin with an empty one, take %s out of the pool and declare it again", known.UUID, w.Name)
	}
	var free []*Disk
	var others []string
	for i := range o.Disks {
		d := &o.Disks[i]
		if !Matches(&w.Match, d) {
			continue
		}
		why := d.Unfit
		switch {
		case why != "":
		case len(d.Mounts) > 0:
			why = "is mounted at " + d.Mounts[0]
		case d.Busy:
			why = "is in use"
		case taken[d.Device()]:
			why = "is that of another declared disk"
		case d.Content.Kind == Ext4 && strings.HasPrefix(d.Content.Label, v1alpha1.DiskLabel("")):
			why = "is labelled " + d.Content.Label
		}
		if why != "" {
			others = append(others, d.Device()+" "+why)
			continue
		}
		if d.Content.Kind == Unfinished && d.Content.Mark == known.UUID {
			return Change{Do: Format, Device: d.Device(), UUID: known.UUID}, ""
		}
		free = append(free, d)
	}
	switch {
	case len(free) == 0 && len(others) == 0:
		return Change{}, "this node has no disk like that"
	case len(free) == 0:
		return Change{}, "this node has no disk like that which is not in use: " + strings.Join(others, ", ")
	case len(free) > 1:
		return Change{}, fmt.Sprintf("%d disks are like that, say more of it: %s", len(free), names(free))
	case free[0].Content.Kind == "":
		return Change{}, free[0].Device() + " cannot be read"
	case free[0].Content.Kind != Blank:
		return Change{}, fmt.Sprintf("%s has %s, and is left as it is; a disk is taken when its first and last 4 MiB are zero", free[0].Device(), free[0].Content.Kind)
	}
	return Change{Do: Format, Device: free[0].Device()}, ""
}

func names(disks []*Disk) string {
	var out []string
	for _, d := range disks {
		out = append(out, d.Device())
	}
	return strings.Join(out, ", ")
}
