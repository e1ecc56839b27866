package trust

import (
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"golang.org/x/crypto/ssh"
)

// File is where a repository keeps its policy.
const File = ".writ/trust.yaml"

// SecretKey is the key of a Secret that holds the first policy.
const SecretKey = "trust.yaml"

// Policy says whose signatures count and what they allow. Parse makes one; it
// does not change and may be used by several goroutines.
type Policy struct {
	// AllowRewrite accepts a branch that was reset to commits that do not
	// descend from the applied one.
	AllowRewrite bool

	keys   []Key
	groups map[string][]string
	rules  []rule
	scopes []scope
}

// Key is one trusted key. Several may have one name: they are one signer.
type Key struct {
	Name string
	Type string // ssh or openpgp
	// Fingerprint is SHA256:… of an SSH key, or that of the OpenPGP key in
	// upper case hexadecimal digits.
	Fingerprint string
	// Mails are the addresses of committers that the key may sign for, with
	// wildcards. None: any.
	Mails []string
	// ValidAfter and ValidBefore bound the time of commits; zero: no bound.
	ValidAfter, ValidBefore time.Time

	ssh ssh.PublicKey
	pgp openpgp.EntityList
}

// rule says who may change the files that match.
type rule struct {
	path    pattern
	signers []string // names of keys and groups; none: any key of the policy
	minimum int
	line    int
}

// scope says what the files that match may declare.
type scope struct {
	paths   []pattern
	signers []string
	authors []string
	allow   []allow
}

type allow struct {
	kinds, namespaces, names []string
	cluster                  bool
}

// ruleFor returns the last rule that matches a path; nil when none does.
func (p *Policy) ruleFor(path string) *rule {
	for i := len(p.rules) - 1; i >= 0; i-- {
		if p.rules[i].path.match(path) {
			return &p.rules[i]
		}
	}
	return nil
}

// includes says whether a signer is in a list of names and groups. An empty
// list includes everybody.
func (p *Policy) includes(list []string, signer string) bool {
	if len(list) == 0 || slices.Contains(list, signer) {
		return true
	}
	return slices.ContainsFunc(list, func(name string) bool { return slices.Contains(p.groups[name], signer) })
}

// named is a list of signers as a finding shows it.
func (p *Policy) named(list []string) string {
	if len(list) == 0 {
		return "any key of the policy"
	}
	if len(list) > 8 {
		return strings.Join(list[:8], ", ") + ", ..."
	}
	return strings.Join(list, ", ")
}

// Keys are the keys of the policy in the order of the file.
func (p *Policy) Keys() []Key { return slices.Clone(p.keys) }
