package pack

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckName says why no file or folder can have a name, or "". The rules are
// those of git fsck, with core.protectNTFS and core.protectHFS: what one
// machine takes for a harmless name another takes for its .git folder.
func CheckName(name string) string {
	switch {
	case name == "", name == ".", name == "..":
		return fmt.Sprintf("%q is no name for a file", name)
	case len(name) > 255:
		return fmt.Sprintf("a name of %d bytes is longer than the 255 that a file system takes", len(name))
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Sprintf("%q has a slash or a null byte in it, which no file can have", name)
	case strings.Contains(name, `\`):
		return fmt.Sprintf("%q has a backslash in it, which leads out of the folder on some systems", name)
	case dotGit(name):
		return fmt.Sprintf("%q is the name of Git's own folder on some systems", name)
	}
	return ""
}

// dotGit says whether a file system takes name for .git: one that folds case,
// NTFS, which drops trailing dots and spaces, knows streams (.git::$DATA) and
// short names (git~1), or HFS+, which ignores some characters.
func dotGit(name string) bool {
	plain := Plain(name)
	return plain == ".git" || plain == "git~1"
}

// Plain is the name that such file systems take a name for.
func Plain(name string) string {
	plain := strings.Map(func(r rune) rune {
		if ignoredByHFS(r) {
			return -1
		}
		return r
	}, name)
	if !utf8.ValidString(name) {
		plain = name
	}
	plain, _, _ = strings.Cut(strings.ToLower(plain), ":")
	return strings.TrimRight(plain, " .")
}

// ignoredByHFS is the list of git's utf8.c (next_hfs_char).
func ignoredByHFS(r rune) bool {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return true
	}
	return false
}
