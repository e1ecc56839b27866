// Package slot is the two places that a node keeps its operating system in, and
// how a version comes into one of them without the other ever being in danger.
//
//	GPT  ESP | root-A verity-A | root-B verity-B | var
//	ESP  EFI/Linux/writ_<seq>.efi                   found good
//	     EFI/Linux/writ_<seq>+<left>-<done>.efi     on trial, by the loader's counter
//	     EFI/Linux/writ_<seq>.staged                installed, not to be booted yet
//	     EFI/Linux/writ_<seq>.tmp                   being written
//	     EFI/Linux/writ_<seq>.efi.extra.d/          kernel arguments besides
//
// The first root and the first verity partition are slot A, the second ones slot
// B. A slot's partition GUIDs are the halves of the root hash of what it holds, by
// which the initrd finds it, and its names say the version; a slot that is named
// "_empty" holds nothing that counts. A unified kernel image (UKI) has the root
// hash on its command line: so an entry of the loader belongs to a slot by its
// content, and neither can lie about the other. seq grows with each switch, so
// that the version which was chosen last is tried first, even if it is the older
// one.
//
// It owns the four partitions, their entries in the table, the files named above
// (package boot has their names and order), and the notes of the slots (package
// note), which the initrd writes too (package guard). It watches nothing. State
// reads, Plan and Boot decide, Slots acts. It promises that whenever the power
// fails, one slot is whole, has an entry, and is what the loader comes to; and that
// doing the interrupted thing again succeeds.
//
// The order of an installation: the other slot's entries go, its GUIDs are
// blanked, its note is erased, the data is written, synced, and read back against
// the root hash, the GUIDs are set in both copies of the table, the UKI gets the
// name "staged". The switch to it is the one rename that the loader can see.
package slot
