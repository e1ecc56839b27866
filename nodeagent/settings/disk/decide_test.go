package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/schema/v1alpha1"
)

const (
	one = "11111111-1111-4111-8111-111111111111"
	two = "22222222-2222-4222-8222-222222222222"
)

func of(name, kind string, more ...func(d *Disk)) Disk {
	d := Disk{Name: name, Names: []string{"/dev/" + name}, Bytes: 10 << 30, Content: Content{Kind: kind}}
	for _, f := range more {
		f(&d)
	}
	return d
}

func labelled(name, id string) func(*Disk) {
	return func(d *Disk) {
		d.Content.Label, d.Content.UUID, d.Content.Bytes = "writ-"+name, id, markAt(d.Bytes)
	}
}
func marked(id string) func(*Disk)    { return func(d *Disk) { d.Content.Mark = id } }
func mountedAt(at string) func(*Disk) { return func(d *Disk) { d.Mounts, d.Busy = []string{at}, true } }
func unfit(why string) func(*Disk)    { return func(d *Disk) { d.Unfit = why } }
func busy(d *Disk)                    { d.Busy = true }

// small is a disk that is, and was made, smaller than what is declared.
func small(d *Disk) { d.Bytes, d.Content.Bytes = 1<<30, min(d.Content.Bytes, markAt(1<<30)) }

// resized is a disk that has got another size since it was made.
func resized(by int64) func(*Disk) { return func(d *Disk) { d.Bytes += by } }

func TestDecide(t *testing.T) {
	data := []Wanted{{Name: "data", Match: Match{Size: ">= 10Gi"}}}
	made, begun := map[string]Known{"data": {UUID: one, Made: true}}, map[string]Known{"data": {UUID: one}}
	system := of("vda", "", unfit("has partitions"))
	at := "/var/mnt/data"
	for _, c := range []struct {
		name   string
		wanted []Wanted
		known  map[string]Known
		disks  []Disk
		want   string
	}{
		{"nothing", nil, nil, []Disk{of("vdb", Blank)}, ""},
		{"a blank disk", data, nil, []Disk{system, of("vdb", Blank)}, "Format data /dev/vdb "},
		{"two blank disks", data, nil, []Disk{of("vdb", Blank), of("vdc", Blank)}, "! 2 disks are like that, say more of it: /dev/vdb, /dev/vdc"},
		{"one of them small", data, nil, []Disk{of("vdb", Blank, small), of("vdc", Blank)}, "Format data /dev/vdc "},
		{"none", data, nil, []Disk{of("vdb", Blank, small)}, "! this node has no disk like that"},
		{"that of the system alone", data, nil, []Disk{system}, "! this node has no disk like that which is not in use: /dev/vda has partitions"},
		{"the system without partitions", data, nil, []Disk{of("vda", Ext4, mountedAt("/"))}, "! this node has no disk like that which is not in use: /dev/vda is mounted at /"},
		{"in use", data, nil, []Disk{of("vda", Blank, busy)}, "! this node has no disk like that which is not in use: /dev/vda is in use"},
		{"another's data", data, nil, []Disk{of("vdb", "XFS")}, "! /dev/vdb has XFS, and is left as it is; a disk is taken when its first and last 4 MiB are zero"},
		{"a file system without our label", data, nil, []Disk{of("vdb", Ext4)}, "! /dev/vdb has ext4, and is left as it is; a disk is taken when its first and last 4 MiB are zero"},
		{"data and a blank one", data, nil, []Disk{of("vdb", "XFS"), of("vdc", Blank)}, "! 2 disks are like that, say more of it: /dev/vdb, /dev/vdc"},
		{"not read", data, nil, []Disk{of("vdb", "")}, "! /dev/vdb cannot be read"},
		{"ours", data, made, []Disk{of("vdb", Ext4, labelled("data", one)), of("vdc", Blank)}, "Mount data /dev/vdb " + one},
		{"ours, of a node made anew", data, nil, []Disk{of("vdb", Ext4, labelled("data", one))}, "Mount data /dev/vdb " + one},
		{"ours, and pods have it", data, made, []Disk{of("vdb", Ext4, labelled("data", one), busy)}, "Mount data /dev/vdb " + one},
		{"another of that name", data, made, []Disk{of("vdb", Ext4, labelled("data", two))},
			"! /dev/vdb is labelled writ-data, and is another disk than that of this node, which has the UUID " + one},
		{"two of that name", data, made, []Disk{of("vdb", Ext4, labelled("data", one)), of("vdc", Ext4, labelled("data", one))},
			"! /dev/vdb, /dev/vdc have file systems labelled writ-data: take away all but one"},
		{"ours does not match any more", data, made, []Disk{of("vdb", Ext4, labelled("data", one), small)}, "! /dev/vdb is labelled writ-data, and is not what is declared"},
		{"ours with partitions", data, made, []Disk{of("vdb", Ext4, labelled("data", one), unfit("has partitions"))}, "! /dev/vdb is labelled writ-data, and has partitions"},
		{"ours elsewhere", data, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt("/srv"))}, "! /dev/vdb is mounted at /srv"},
		{"mounted", data, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at))}, ""},
		{"mounted and forgotten", data, nil, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at))}, "Remember data /dev/vdb " + one},
		{"another is mounted there", data, nil, []Disk{of("vdb", "XFS", mountedAt(at)), of("vdc", Blank)}, "! /dev/vdb is mounted at /var/mnt/data, and is another disk"},
		{"mounted, and the declaration has changed", data, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), small)}, "! /dev/vdb is mounted, and is not what is declared"},
		{"mounted, and the disk has grown", data, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), resized(10<<30))}, "Grow data /dev/vdb " + one + " to 21473787904"},
		{"it has grown by enough", data, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), resized(growFrom+511))}, "Grow data /dev/vdb " + one + " to 10753146880"},
		{"it has grown by too little", data, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), resized(growFrom-1))}, ""},
		{"it has grown, and is not mounted yet", data, made, []Disk{of("vdb", Ext4, labelled("data", one), resized(10<<30))}, "Mount data /dev/vdb " + one},
		{"it has grown, and is forgotten", data, nil, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), resized(10<<30))}, "Remember data /dev/vdb " + one},
		{"it has grown out of what is declared", []Wanted{{Name: "data", Match: Match{Size: "<= 10Gi"}}}, made,
			[]Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), resized(10<<30))}, "! /dev/vdb is mounted, and is not what is declared"},
		{"it has grown, and is declared no more", nil, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), resized(10<<30))}, "Unmount data /dev/vdb "},
		{"another has grown there", data, made, []Disk{of("vdb", Ext4, labelled("more", two), mountedAt(at), resized(10<<30))}, "! /dev/vdb is mounted at /var/mnt/data, and is another disk"},
		{"it has shrunk by what is free at its end", data, made, []Disk{of("vdb", Ext4, labelled("data", one), resized(512<<10), resized(-512<<10))}, "Mount data /dev/vdb " + one},
		{"it has shrunk", []Wanted{{Name: "data", Match: Match{Size: "> 1Gi"}}}, made, []Disk{of("vdb", Ext4, labelled("data", one), resized(-5<<30))},
			"! /dev/vdb has become smaller than its file system (5368709120 bytes of 10736369664): give it back the size that it had"},
		{"it has shrunk while it is mounted", []Wanted{{Name: "data", Match: Match{Size: "> 1Gi"}}}, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at), resized(-5<<30))},
			"! /dev/vdb has become smaller than its file system (5368709120 bytes of 10736369664): give it back the size that it had"},
		{"killed before the end, and the disk has grown", data, begun, []Disk{of("vdb", Ext4, labelled("data", one), marked(one), resized(10<<30))}, "Format data /dev/vdb " + one},
		{"ours is away", data, made, []Disk{of("vdc", Blank)},
			"! the disk with the UUID " + one + " is not there; to begin with an empty one, take data out of the pool and declare it again"},
		{"killed before the mark", data, begun, []Disk{of("vdb", Blank)}, "Format data /dev/vdb "},
		{"killed after the mark", data, begun, []Disk{of("vdb", Unfinished, marked(one)), of("vdc", Blank)}, "Format data /dev/vdb " + one},
		{"killed before the end", data, begun, []Disk{of("vdb", Ext4, labelled("data", one), marked(one))}, "Format data /dev/vdb " + one},
		{"killed after the end", data, begun, []Disk{of("vdb", Ext4, labelled("data", one))}, "Mount data /dev/vdb " + one},
		{"a mark of others", data, nil, []Disk{of("vdb", Unfinished, marked(two))}, "! /dev/vdb has an unfinished format, and is left as it is; a disk is taken when its first and last 4 MiB are zero"},
		{"a mark of others, with the file system", data, nil, []Disk{of("vdb", Ext4, labelled("data", two), marked(two))}, "! /dev/vdb was begun to be formatted by another node"},
		{"a mark on what was whole", data, made, []Disk{of("vdb", Ext4, labelled("data", one), marked(one))}, "! /dev/vdb was begun to be formatted by another node"},
		{"undeclared", nil, made, []Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at))}, "Unmount data /dev/vdb "},
		{"undeclared, and pods have it", nil, made, []Disk{of("vdb", Ext4, labelled("data", one), busy)}, "! it is not declared any more, and pods that began before still use /dev/vdb"},
		{"undeclared and unmounted", nil, made, []Disk{of("vdb", Ext4, labelled("data", one))}, "Forget data  "},
		{"a second one", append(slices.Clone(data), Wanted{Name: "more", Match: Match{Size: ">= 10Gi"}}), made,
			[]Disk{of("vdb", Ext4, labelled("data", one), mountedAt(at)), of("vdc", Blank)}, "Format more /dev/vdc "},
		{"that of another name", []Wanted{{Name: "more", Match: Match{Size: "> 1Gi, < 1Ti"}}}, nil, []Disk{of("vdb", Ext4, labelled("data", one))},
			"! this node has no disk like that which is not in use: /dev/vdb is labelled writ-data"},
		{"two for one disk", append(slices.Clone(data), Wanted{Name: "more", Match: Match{Size: ">= 10Gi"}}), nil, []Disk{of("vdb", Blank)},
			"Format data /dev/vdb ; ! this node has no disk like that which is not in use: /dev/vdb is that of another declared disk"},
	} {
		p := Decide(Observed{Wanted: c.wanted, Known: c.known, Disks: c.disks})
		var got []string
		for _, ch := range p.Changes {
			to := ""
			if ch.Bytes > 0 {
				to = fmt.Sprintf(" to %d", ch.Bytes)
			}
			got = append(got, fmt.Sprintf("%s %s %s %s%s", ch.Do, ch.Name, ch.Device, ch.UUID, to))
		}
		for _, why := range p.Problems {
			_, why, _ = strings.Cut(why, ": ")
			got = append(got, "! "+why)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMatches(t *testing.T) {
	turns, still := true, false
	d := Disk{Names: []string{"/dev/sda", "/dev/disk/by-path/pci-0000:00:05.0"}, Bytes: 10 << 30, Model: "Samsung SSD 990", Serial: "S3[1]", WWID: "eui.002538"}
	for _, c := range []struct {
		m    Match
		want bool
	}{
		{Match{}, false}, {Match{Size: ">= 10Gi"}, true}, {Match{Size: "> 10Gi"}, false}, {Match{Size: ">=10G, < 11Gi"}, true}, {Match{Size: "<= 9Gi"}, false}, {Match{Size: "10Gi"}, false},
		{Match{Model: "Samsung*"}, true}, {Match{Model: "Samsung"}, false}, {Match{Serial: "S?[1]"}, true}, {Match{Serial: "S31"}, false}, {Match{WWID: "*"}, true},
		{Match{Path: "/dev/sda"}, true}, {Match{Path: "/dev/disk/by-path/*:05.0"}, true}, {Match{Path: "/dev/sdb"}, false},
		{Match{Rotational: &still}, true}, {Match{Rotational: &turns}, false}, {Match{Model: "Samsung*", Serial: "other"}, false},
	} {
		if got := Matches(&c.m, &d); got != c.want {
			t.Errorf("%+v: %v", c.m, got)
		}
	}
}

// Whatever is declared, remembered and there: no disk with data is formatted, and
// none of the system, none grows but where it is mounted, and the plan comes to
// an end.
func TestNoDataIsLost(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	formats, grown := 0, 0
	for range 20000 {
		o := anything(rng)
		data := map[string]Content{}
		for _, d := range o.Disks {
			if d.Content.Kind != Blank && d.Content.Mark == "" {
				data[d.Device()] = d.Content
			}
		}
		steps := 0
		for p := Decide(o); len(p.Changes) > 0; p = Decide(o) {
			if steps++; steps > 20 {
				t.Fatalf("no end of %+v", o)
			}
			devices := map[string]bool{}
			for _, c := range p.Changes {
				if c.Device != "" && devices[c.Device] && c.Do == Format {
					t.Fatalf("twice %+v of %+v", p.Changes, o)
				}
				devices[c.Device] = true
				switch c.Do {
				case Format:
					formats++
				case Grow:
					grown++
				}
				carryOut(t, &o, c)
			}
		}
		for _, d := range o.Disks {
			was, ok := data[d.Device()]
			if d.Content.Bytes == markAt(d.Bytes) {
				was.Bytes = d.Content.Bytes // it may have grown to that
			}
			if ok && was != d.Content {
				t.Fatalf("%s had %+v and has %+v", d.Device(), was, d.Content)
			}
		}
	}
	if formats < 1000 || grown < 25 {
		t.Errorf("%d formats and %d grown only", formats, grown)
	}
}

func anything(rng *rand.Rand) Observed {
	o := Observed{Known: map[string]Known{}}
	ids, names := []string{one, two}, []string{"a", "b"}
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	for _, n := range names {
		if rng.IntN(3) > 0 {
			o.Wanted = append(o.Wanted, Wanted{Name: n, Match: Match{Size: pick([]string{"> 1", ">= 10Gi", "< 10Gi", "no"})}})
		}
		if rng.IntN(2) == 0 {
			o.Known[n] = Known{UUID: pick(ids), Made: rng.IntN(2) == 0}
		}
	}
	for i := range rng.IntN(4) {
		d := of(fmt.Sprintf("vd%c", 'a'+i), pick([]string{Blank, Blank, Blank, Ext4, "XFS", "", "data", Unfinished}))
		switch {
		case d.Content.Kind == Unfinished:
			d.Content.Mark = pick(ids)
		case d.Content.Kind == Ext4:
			d.Content.UUID, d.Content.Label = pick(ids), pick([]string{"writ-a", "writ-b", "", "root"})
			d.Content.Bytes = markAt([]int64{1 << 30, 5 << 30, 10 << 30}[rng.IntN(3)])
			if rng.IntN(3) == 0 {
				d.Content.Mark = d.Content.UUID
			}
		}
		if rng.IntN(3) == 0 {
			d.Bytes = 1 << 30
		}
		if rng.IntN(6) == 0 {
			d.Unfit = "has partitions"
		}
		d.Busy = rng.IntN(6) == 0
		if rng.IntN(6) == 0 {
			d.Mounts, d.Busy = []string{pick([]string{"/", "/var/mnt/a", "/var/mnt/b"})}, true
		}
		o.Disks = append(o.Disks, d)
	}
	return o
}

// carryOut does a change to what is observed, if nothing forbids it.
func carryOut(t *testing.T, o *Observed, c Change) {
	t.Helper()
	i := slices.IndexFunc(o.Disks, func(d Disk) bool { return d.Device() == c.Device })
	known := o.Known[c.Name]
	o.Known = maps.Clone(o.Known)
	if c.Do == Forget {
		delete(o.Known, c.Name)
		return
	}
	d := &o.Disks[i]
	switch c.Do {
	case Format:
		again := d.Content.Mark != "" && d.Content.Mark == c.UUID && c.UUID == known.UUID && !known.Made
		if d.Unfit != "" || d.Busy || len(d.Mounts) > 0 || d.Content.Kind != Blank && !again {
			t.Fatalf("format of %+v, with %+v", d, known)
		}
		id := c.UUID
		if id == "" {
			id = "33333333-3333-4333-8333-333333333333"
		}
		d.Content = Content{Kind: Ext4, Label: v1alpha1.DiskLabel(c.Name), UUID: id, Bytes: markAt(d.Bytes)}
		o.Known[c.Name] = Known{UUID: id, Made: true}
	case Mount:
		if d.Unfit != "" || d.Content.Label != v1alpha1.DiskLabel(c.Name) || d.Content.Mark != "" || d.Content.Bytes > d.Bytes {
			t.Fatalf("mount of %+v as %s", d, c.Name)
		}
		d.Mounts, d.Busy = []string{v1alpha1.DiskPath(c.Name)}, true
		o.Known[c.Name] = Known{UUID: c.UUID, Made: true}
	case Grow:
		if d.Content.Label != v1alpha1.DiskLabel(c.Name) || !slices.Contains(d.Mounts, v1alpha1.DiskPath(c.Name)) || c.Bytes < d.Content.Bytes || c.Bytes > markAt(d.Bytes) {
			t.Fatalf("%+v of %+v", c, d)
		}
		d.Content.Bytes = c.Bytes
	case Remember:
		o.Known[c.Name] = Known{UUID: c.UUID, Made: true}
	case Unmount:
		d.Mounts = slices.DeleteFunc(d.Mounts, func(at string) bool { return at == v1alpha1.DiskPath(c.Name) })
		d.Busy = false
	}
}
