package config

// Op is what a Step does.
type Op string

// What Steps do. Each is on the disk before the next begins.
const (
	Write     Op = "write"     // Path is made, or replaced whole
	Overwrite Op = "overwrite" // Path keeps its place and length
	Rename    Op = "rename"    // Path takes the name To
)

// Disk is what a Step writes to.
type Disk string

// The disks.
const (
	Var Disk = "var" // /var
	ESP Disk = "esp" // the EFI system partition
)

// Step is one change that outlives the boot. Paths are relative to the disk.
type Step struct {
	Op       Op
	Disk     Disk
	Path, To string
	Data     []byte
}

// The files on the disks.
const (
	VarPath = "lib/writ/" + Name
	ESPPath = "writ/" + Name
	newPath = ESPPath + ".new"
)

// Persist says how the machine keeps the file that counts, and how the secrets
// leave the EFI system partition, which everybody reads who holds the disk.
// boot is the file there now, nil without one.
//
// The steps may end after any of them, and in the middle of an Overwrite; what
// Choose and Persist then say finishes the work. Nothing is erased before /var
// has it.
func Persist(c Choice, boot []byte) ([]Step, error) {
	if !c.Found || len(c.Findings) > 0 {
		return nil, nil
	}
	var out []Step
	if c.Kind != Kept {
		out = append(out, Step{Op: Write, Disk: Var, Path: VarPath, Data: c.Data})
	}
	if len(boot) == 0 || !overwritten(c.Data, boot) {
		return out, nil
	}
	without, erased, err := Erase(c.Data)
	if err != nil || !erased {
		return out, err
	}
	return append(out,
		Step{Op: Write, Disk: ESP, Path: newPath, Data: without},
		Step{Op: Overwrite, Disk: ESP, Path: ESPPath, Data: make([]byte, len(boot))},
		Step{Op: Rename, Disk: ESP, Path: newPath, To: ESPPath}), nil
}

// overwritten says that a file is another one of which some bytes, or none, or
// all, have become zero.
func overwritten(whole, now []byte) bool {
	if len(whole) != len(now) {
		return false
	}
	for i, b := range now {
		if b != 0 && b != whole[i] {
			return false
		}
	}
	return true
}

// sameOrErased says that what lies on the EFI system partition came from the
// file that counts.
func sameOrErased(whole, now []byte) bool {
	return overwritten(whole, now) || sameFile(whole, now)
}
