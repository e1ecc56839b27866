package config

import (
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
	// Found is false without any file.
	Found bool
}

// Choose says which file counts: the first, in the order given, unless a later
// one has a higher generation. A file with mistakes has no generation. The
// files that a machine has taken its own from, with or without their secrets,
// say nothing else.
func Choose(sources []Source) Choice {
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
