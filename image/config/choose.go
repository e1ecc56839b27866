package config

import (
	"crypto/subtle"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Kind is a place that a node.yaml comes from.
type Kind string

// The places, in the order in which they count.
const (
	Kept        Kind = "kept"        // /var, where the machine keeps what it was told
	Credential  Kind = "credential"  // node.config of systemd: SMBIOS type 11, fw_cfg
	Boot        Kind = "boot"        // /writ/node.yaml of the EFI system partition
	Volume      Kind = "volume"      // a disk or stick labelled cidata or config
	CommandLine Kind = "commandline" // writ.config= of the kernel
)

// Source is what was found in a place.
type Source struct {
	Kind Kind
	// Where is what people call the place.
	Where string
	// Data is the file; nil: there is none.
	Data []byte
}

// Choice is the file that counts.
type Choice struct {
	Source
	Node Node
	// Findings are what is wrong with it; then the Node is not to be used, and
	// no other file stands in for it.
	Findings []v1alpha1.Finding
	// Ignored are the places whose files do not count although they say
	// something else.
	Ignored []Source
	// Locked are the places whose files would count if they had the recovery key of
	// the one that the machine has kept.
	Locked []Source
	// Found is false without any file.
	Found bool
}

// Choose says which file counts: the first, in the order given, unless a later
// one has a higher generation. A file with mistakes has no generation. The
// files that a machine has taken its own from, with or without their secrets,
// say nothing else.
//
// On a machine whose /var is encrypted, or whose kept file asks for that, a later
// file counts only with the recovery key of the kept one: whoever can put in a
// stick, or write to the EFI system partition, would else have the machine follow a
// repository of theirs. Without a recovery key, and while the kept file has
// mistakes, as one whose sectors were tampered with would, nothing takes its place.
func Choose(sources []Source, encrypted bool) Choice {
	var out Choice
	for _, s := range sources {
		if len(s.Data) == 0 || blank(s.Data) {
			continue
		}
		n, findings := Parse(s.Where, s.Data)
		if !out.Found {
			out = Choice{Source: s, Node: n, Findings: findings, Found: true}
			continue
		}
		if len(findings) == 0 && n.Generation > out.Node.Generation && out.locks(n, encrypted) {
			out.Locked = append(out.Locked, s)
			continue
		}
		if len(findings) == 0 && n.Generation > out.Node.Generation {
			out.Ignored = append(out.Ignored, out.Source)
			out.Source, out.Node, out.Findings = s, n, nil
			continue
		}
		if !sameOrErased(out.Data, s.Data) {
			out.Ignored = append(out.Ignored, s)
		}
	}
	return out
}

// locks says whether the file of now keeps another one from taking its place.
func (c Choice) locks(other Node, encrypted bool) bool {
	if c.Kind != Kept || !encrypted && c.Node.Encryption == nil {
		return false
	}
	kept, given := c.Node.recoveryKey(), other.recoveryKey()
	return kept == "" || subtle.ConstantTimeCompare([]byte(kept), []byte(given)) != 1
}

// recoveryKey is that of the file; "" without one.
func (n Node) recoveryKey() string {
	if n.Encryption == nil {
		return ""
	}
	return n.Encryption.RecoveryKey
}
