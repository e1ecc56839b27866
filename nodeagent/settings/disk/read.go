package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is where disks are read from, and mounted.
type Machine struct {
	// Sys and Dev are /sys and /dev. Mnt is the directory of the mounts, by which
	// tests stand in for /var/mnt.
	Sys, Dev, Mnt string
	// Loops are loop devices that are taken for disks, for tests.
	Loops []string
}

// sector is the unit of sizes in /sys.
const sector = 512

// maxField bounds what is read of a file in /sys, in bytes.
const maxField = 4096

// Disks are all whole disks of the machine.
func (m *Machine) Disks() ([]Disk, error) {
	entries, err := os.ReadDir(filepath.Join(m.Sys, "block"))
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	mounts, err := readMounts("/proc/self/mountinfo", m.Mnt)
	if err != nil {
		return nil, err
	}
	aliases := m.aliases()
	var out []Disk
	for _, e := range entries {
		d, ok := m.disk(e.Name())
		if !ok {
			continue
		}
		d.Names = append(d.Names, aliases[d.Name]...)
		d.Mounts = mounts[m.field(d.Name, "dev")]
		if d.Unfit == "" {
			if d.Content, d.Busy, err = m.look(&d); err != nil {
				d.Content = Content{} // it is as good as none
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// disk is what /sys says of one; ok is false of what is no disk.
func (m *Machine) disk(name string) (d Disk, ok bool) {
	if _, err := os.Stat(m.path(name, "device")); err != nil && !slices.Contains(m.Loops, name) {
		return d, false // a loop, memory, or made of others
	}
	sectors, err := strconv.ParseInt(m.field(name, "size"), 10, 64)
	if err != nil || sectors == 0 || m.field(name, "hidden") == "1" {
		return d, false
	}
	d = Disk{Name: name, Names: []string{"/dev/" + name}, Bytes: sectors * sector, Rotational: m.field(name, "queue/rotational") == "1",
		Model: m.field(name, "device/model"), Serial: m.first(name, "serial", "device/serial"), WWID: m.first(name, "wwid", "device/wwid")}
	if d.Serial == "" {
		if page := m.field(name, "device/vpd_pg80"); len(page) > 4 { // SCSI: four bytes before it
			d.Serial = strings.TrimSpace(page[4:])
		}
	}
	d.Unfit = m.unfit(name)
	return d, true
}

func (m *Machine) unfit(name string) string {
	parts, err := filepath.Glob(m.path(name, name+"*/partition"))
	if err != nil || len(parts) > 0 {
		return "has partitions"
	}
	switch holders, err := os.ReadDir(m.path(name, "holders")); {
	case err == nil && len(holders) > 0:
		return "is part of " + holders[0].Name()
	case m.field(name, "ro") == "1":
		return "cannot be written to"
	case m.field(name, "removable") == "1":
		return "is removable"
	}
	return ""
}

func (m *Machine) path(name, field string) string { return filepath.Join(m.Sys, "block", name, field) }

// field is a value of /sys; "" where there is none.
func (m *Machine) field(name, field string) string {
	f, err := os.Open(m.path(name, field))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxField))
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \n\x00")
}

func (m *Machine) first(name string, fields ...string) string {
	for _, f := range fields {
		if v := m.field(name, f); v != "" {
			return v
		}
	}
	return ""
}

// aliases are the names that udev gives to disks, by their own.
func (m *Machine) aliases() map[string][]string {
	out := map[string][]string{}
	links, err := filepath.Glob(filepath.Join(m.Dev, "disk", "by-*", "*"))
	if err != nil {
		return out
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			rel, err := filepath.Rel(m.Dev, l)
			if err == nil {
				out[filepath.Base(to)] = append(out[filepath.Base(to)], "/dev/"+rel)
			}
		}
	}
	return out
}

// device is the file of a disk.
func (m *Machine) device(name string) string { return filepath.Join(m.Dev, filepath.Base(name)) }

// look reads what is on a disk, and whether the kernel has given it to somebody.
func (m *Machine) look(d *Disk) (Content, bool, error) {
	f, err := os.OpenFile(m.device(d.Name), os.O_RDONLY|unix.O_EXCL, 0)
	busy := errors.Is(err, unix.EBUSY)
	if busy {
		f, err = os.Open(m.device(d.Name))
	}
	if err != nil {
		return Content{}, busy, fmt.Errorf("open disk: %w", err)
	}
	defer f.Close()
	c, err := ReadContent(f, d.Bytes)
	return c, busy, err
}

// readMounts are where devices are mounted, by their numbers. What is below dir is
// said as below /var/mnt.
func readMounts(file, dir string) (map[string][]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	out := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 5 {
			at := unescape.Replace(f[4])
			if rest, ok := strings.CutPrefix(at, dir+"/"); ok {
				at = "/var/mnt/" + rest
			}
			out[f[2]] = append(out[f[2]], at)
		}
	}
	return out, nil
}
