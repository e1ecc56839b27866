package boot

import (
	"cmp"
	"fmt"
	"slices"
)

// Files are those of ours on an ESP.
type Files struct {
	// Names are all of them.
	Names []string
	// Entries are what the loader sees, in its order.
	Entries []Entry
	// Staged are UKIs that wait, newest first, with the name that they have now.
	Staged []Entry
	// Next is the first number that no file has.
	Next uint64
}

// Read reads an ESP. A file that is no whole UKI has no root hash.
func Read(esp ESP) (Files, error) {
	var f Files
	names, err := esp.List()
	if err != nil {
		return f, fmt.Errorf("list boot entries: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		seq, ours := SeqOf(name)
		if !ours {
			continue
		}
		f.Names = append(f.Names, name)
		f.Next = max(f.Next, seq+1)
		e, isEntry := ParseEntry(name)
		isStaged := name == StagedName(seq)
		if !isEntry && !isStaged {
			continue
		}
		e.Name, e.Seq = name, seq
		if line, err := commandLine(esp, name); err == nil {
			e.RootHash = Argument(line, "roothash")
		}
		if slices.Contains(names, ArgumentsName(seq)) {
			e.Arguments, _ = commandLine(esp, ArgumentsName(seq)) // that of a broken one are none
		}
		if isStaged {
			f.Staged = append(f.Staged, e)
		} else {
			f.Entries = append(f.Entries, e)
		}
	}
	Order(f.Entries)
	slices.SortFunc(f.Staged, func(a, b Entry) int { return cmp.Compare(b.Seq, a.Seq) })
	return f, nil
}
