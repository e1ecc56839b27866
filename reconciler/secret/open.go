package secret

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// The rules of this package's findings.
const (
	RuleMissingKey    = "MissingKey"    // no key here opens the file
	RuleHalfEncrypted = "HalfEncrypted" // a value is plain that must not be, or the other way round
	RuleTampered      = "Tampered"      // the file is not as it was encrypted
	RuleMalformed     = "Malformed"     // what SOPS or age keeps of the file cannot be read
	RuleUnsupported   = "Unsupported"   // encrypted in a way that is not known here
	RuleMustEncrypt   = "MustEncrypt"   // .sops.yaml says that the file must be encrypted
)

const (
	maxPlain    = 10 << 20 // bytes of a file that age has encrypted
	maxFindings = 100      // of one file
	maxQuoted   = 10_000   // values that are looked for in findings; above, all words go
)

// Opened is what became of a file.
type Opened struct {
	// Encrypted says that the file is encrypted, or half. Then Plain, and not
	// the file, is what is rendered.
	Encrypted bool
	// Plain is the file with its values decrypted, with the lines of the file
	// where they were; nil when there are findings or Opaque is set.
	Plain []byte
	// Opaque says that Mask cannot show even the shape of the file.
	Opaque bool
	// Findings are why the file is not opened, in the order of the file.
	Findings []v1alpha1.Finding

	whole  bool         // every line is secret
	lines  map[int]bool // those that hold an encrypted value
	values []string     // that were decrypted
}

// Decrypt is Open for those who need no more: what the file says, what is
// wrong, and whether it is encrypted at all. plain is data itself when it is
// not, and nil when there are findings.
func (k *Keyring) Decrypt(path string, data []byte) (plain []byte, findings []v1alpha1.Finding, encrypted bool) {
	o := k.Open(path, data)
	if !o.Encrypted {
		return data, nil, false
	}
	return o.Plain, o.Findings, true
}

// Open decrypts a file, if it is encrypted. A file that is not costs one
// search for two words. A nil Keyring has no keys.
func (k *Keyring) Open(path string, data []byte) *Opened {
	if wholeFile(path, data) {
		return k.openWhole(path, data)
	}
	f, err := load(path, data)
	if f == nil {
		return &Opened{}
	}
	if err != nil {
		return refused(f, []problem{*err})
	}
	m, p := f.metadata()
	if p != nil {
		return refused(f, []problem{*p})
	}
	if m == nil {
		return refused(f, f.stray())
	}
	key, ok := k.dataKey(m)
	if !ok {
		return refused(f, []problem{k.noKey(m)})
	}
	op, oerr := newOpener(key)
	if oerr != nil {
		return refused(f, []problem{*bad(m.at, oerr.Error())})
	}
	return f.open(m, op)
}

// Mask is Open without a key, for those who check files and may not read them:
// each encrypted value becomes one that means nothing and has its type. What
// can be seen without a key is found: values that are plain and must not be,
// and metadata that is wrong.
func Mask(path string, data []byte) *Opened {
	if wholeFile(path, data) {
		return &Opened{Encrypted: true, Opaque: true}
	}
	f, err := load(path, data)
	if f == nil {
		return &Opened{}
	}
	if err != nil {
		return refused(f, []problem{*err})
	}
	m, p := f.metadata()
	switch {
	case p != nil:
		return refused(f, []problem{*p})
	case m == nil:
		return refused(f, f.stray())
	}
	return f.open(m, nil)
}

// PlainName is the name that a file has when it is decrypted: without .age.
func PlainName(path string) string { return strings.TrimSuffix(path, ".age") }

func wholeFile(path string, data []byte) bool {
	return strings.HasSuffix(path, ".age") || bytes.HasPrefix(data, []byte("age-encryption.org/")) || armored(data)
}

func (k *Keyring) openWhole(path string, data []byte) *Opened {
	o := &Opened{Encrypted: true, whole: true}
	plain, err := k.openAge(data, maxPlain)
	if err == nil {
		o.Plain = plain
		return o
	}
	f := v1alpha1.Finding{File: path, Line: 1, Column: 1}
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		f.Rule, f.Message, f.Hint = RuleMissingKey, "the file is encrypted with age, and no key here opens it", k.hint()
	case errors.Is(err, errTooLarge):
		f.Rule, f.Message, f.Hint = "TooLarge", fmt.Sprintf("the plain text is larger than %d MiB", maxPlain>>20), "split the file"
	case !bytes.HasPrefix(data, []byte("age-encryption.org/")) && !armored(data):
		f.Rule, f.Message, f.Hint = RuleMalformed, "the name says that age has encrypted the file, and the content does not", "encrypt it with age, or rename it"
	default:
		f.Rule, f.Message, f.Hint = RuleTampered, "the file is damaged or was changed after age encrypted it", "encrypt it again"
	}
	o.Findings = []v1alpha1.Finding{f}
	return o
}

// noKey says that none of our keys fits, and which would.
func (k *Keyring) noKey(m *metadata) problem {
	var names []string
	for _, r := range m.age {
		names = append(names, "age "+shown(r.name))
	}
	for _, r := range m.pgp {
		names = append(names, "OpenPGP "+shown(r.name))
	}
	if len(names) == 0 {
		if len(m.others) == 0 {
			return *bad(m.at, "sops names no recipient, so nobody can open the file")
		}
		p := unsupported(m.at, "the file is encrypted only for "+strings.Join(m.others, " and ")+", which the cluster does not ask")
		p.hint = "add an age or OpenPGP recipient: sops rotate -i --add-age age1… FILE"
		return *p
	}
	if len(names) > 5 {
		names = append(names[:5], "others")
	}
	return problem{at: m.at, rule: RuleMissingKey, hint: k.hint(),
		message: "no key here opens the file; it is encrypted for " + strings.Join(names, ", ")}
}

// shown is a recipient as a finding shows it: it comes from the file.
func shown(name string) string {
	if len(name) > 128 {
		name = name[:128]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// hint names the recipients whose keys are here; they are public.
func (k *Keyring) hint() string {
	if k == nil || len(k.age)+len(k.pgp) == 0 {
		return "name the Secret that holds the private key in spec.decryption.secret of the Repository"
	}
	var own []string
	for _, id := range k.age {
		if r, ok := id.(interface{ Recipient() *age.X25519Recipient }); ok {
			own = append(own, r.Recipient().String())
		}
	}
	for _, e := range k.pgp {
		own = append(own, fmt.Sprintf("%X", e.PrimaryKey.Fingerprint))
	}
	if len(own) == 0 || len(own) > 5 {
		return "add the private key to the Secret of spec.decryption, or encrypt the file for a key that is there"
	}
	return "add the private key to the Secret of spec.decryption, or encrypt the file for a key that is there: " + strings.Join(own, ", ")
}

// problem is something wrong at a place of a file.
type problem struct {
	at                         *node
	field, rule, message, hint string
}

func bad(n *node, message string) *problem {
	return &problem{at: n, rule: RuleMalformed, message: message, hint: "encrypt the file again with sops"}
}

func unsupported(n *node, message string) *problem {
	return &problem{at: n, rule: RuleUnsupported, message: message}
}

// refused is a file that is not opened.
func refused(f *file, problems []problem) *Opened {
	if len(problems) == 0 {
		return &Opened{}
	}
	o := &Opened{Encrypted: true, whole: true}
	if len(problems) > maxFindings {
		problems = problems[:maxFindings]
	}
	for _, p := range problems {
		o.Findings = append(o.Findings, v1alpha1.Finding{File: f.path, Line: p.at.line, Column: p.at.column,
			Field: p.field, Rule: p.rule, Message: p.message, Hint: p.hint})
	}
	return o
}

// Redact takes out of findings about the plain text what would tell it: the
// words of those that stand at an encrypted value, and of those that quote
// one. Place, field and rule stay.
func (o *Opened) Redact(findings []v1alpha1.Finding) []v1alpha1.Finding {
	if !o.Encrypted || o.Plain == nil {
		return findings
	}
	out := slices.Clone(findings)
	for i := range out {
		f := &out[i]
		if !o.whole && len(o.values) <= maxQuoted && !o.lines[f.Line] && !o.quoted(f.Message) && !o.quoted(f.Hint) {
			continue
		}
		what := "what is encrypted here"
		if f.Field != "" {
			what = "the encrypted value of " + f.Field
		}
		f.Message, f.Hint = what+" breaks the rule "+f.Rule+"; it is not shown", ""
	}
	return out
}

func (o *Opened) quoted(text string) bool {
	return slices.ContainsFunc(o.values, func(v string) bool { return strings.Contains(text, v) })
}
