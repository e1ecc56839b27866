package secret

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// metadataKey is the field in which SOPS keeps what it knows of a file.
const metadataKey = "sops"

// maxMetadata bounds the recipients of a file and the length of a pattern.
const (
	maxRecipients = 128
	maxPattern    = 4096
	maxWrapped    = 64 << 10 // bytes of one encrypted data key
)

// recipient is one encrypted copy of the data key.
type recipient struct{ name, enc string }

// metadata is the sops field of a file.
type metadata struct {
	at       *node
	age, pgp []recipient
	others   []string // key services that we cannot ask
	mac      string
	modified string // the associated data of the MAC
	macNode  *node

	unencryptedSuffix, encryptedSuffix   string
	unencrypted, encrypted               *regexp.Regexp
	unencryptedComment, encryptedComment *regexp.Regexp
	macOnlyEncrypted                     bool
	shamir                               bool
}

// services are the fields of recipients that need a cloud or a server.
var services = []struct{ field, name string }{
	{"kms", "AWS KMS"}, {"gcp_kms", "Google Cloud KMS"}, {"azure_kv", "Azure Key Vault"}, {"hc_vault", "HashiCorp Vault"}, {"hckms", "Huawei Cloud KMS"},
}

// readMetadata reads the sops field. The second value is what is wrong with
// it, and where.
func readMetadata(n *node) (*metadata, *problem) {
	if n.kind != mapKind {
		return nil, bad(n, "sops is no map, so the file is not one that SOPS has written")
	}
	m := &metadata{at: n, mac: n.str("mac"), macNode: n.get("mac")}
	if m.mac == "" {
		return nil, bad(n, "sops.mac is missing, so nothing shows that the file is whole")
	}
	at := n.get("lastmodified")
	t, err := time.Parse(time.RFC3339, textOf(at))
	if err != nil {
		return nil, bad(orElse(at, n), "sops.lastmodified is no time in RFC 3339")
	}
	m.modified = t.Format(time.RFC3339)
	if p := m.keys(n); p != nil {
		return nil, p
	}
	if v := n.get("mac_only_encrypted"); v != nil {
		m.macOnlyEncrypted = string(v.mac) == "True"
	}
	return m, m.selection(n)
}

func textOf(n *node) string {
	if n == nil || n.kind != scalarKind {
		return ""
	}
	return n.text
}

func orElse(n, other *node) *node {
	if n == nil {
		return other
	}
	return n
}

// keys collects the recipients: of the file, or of its only key group.
func (m *metadata) keys(n *node) *problem {
	holders := []*node{n}
	if groups := n.get("key_groups"); groups != nil && groups.kind == listKind && len(groups.entries) > 0 {
		if len(groups.entries) > 1 {
			m.shamir = true
			return unsupported(groups, "the data key is split between several key groups (Shamir), which is not supported: encrypt the file with one group")
		}
		holders = append(holders, groups.entries[0].val)
	}
	for _, h := range holders {
		m.age = recipients(m.age, h.get("age"), "recipient")
		m.pgp = recipients(m.pgp, h.get("pgp"), "fp")
		for _, s := range services {
			if v := h.get(s.field); v != nil && len(v.entries) > 0 {
				m.others = append(m.others, s.name)
			}
		}
	}
	if len(m.age)+len(m.pgp) > maxRecipients {
		return bad(n, fmt.Sprintf("sops names more than %d recipients", maxRecipients))
	}
	return nil
}

func recipients(to []recipient, list *node, name string) []recipient {
	if list == nil {
		return to
	}
	for _, e := range list.entries {
		if enc := e.val.str("enc"); enc != "" && len(enc) <= maxWrapped {
			to = append(to, recipient{name: e.val.str(name), enc: enc})
		}
	}
	return to
}

// selection reads what says which values are encrypted: one rule at most.
func (m *metadata) selection(n *node) *problem {
	var set []string
	suffix := func(field string, to *string) {
		if v := n.str(field); v != "" {
			*to, set = v, append(set, field)
		}
	}
	var wrong *problem
	pattern := func(field string, to **regexp.Regexp) {
		v := n.str(field)
		if v == "" {
			return
		}
		set = append(set, field)
		re, err := regexp.Compile(v)
		if err != nil || len(v) > maxPattern {
			wrong = bad(n.get(field), fmt.Sprintf("sops.%s is no regular expression", field))
			return
		}
		*to = re
	}
	suffix("unencrypted_suffix", &m.unencryptedSuffix)
	suffix("encrypted_suffix", &m.encryptedSuffix)
	pattern("unencrypted_regex", &m.unencrypted)
	pattern("encrypted_regex", &m.encrypted)
	pattern("unencrypted_comment_regex", &m.unencryptedComment)
	pattern("encrypted_comment_regex", &m.encryptedComment)
	switch {
	case wrong != nil:
		return wrong
	case len(set) > 1:
		return bad(n, "sops has "+strings.Join(set, " and ")+", and only one of them may say what is encrypted")
	case len(set) == 0:
		m.unencryptedSuffix = "_unencrypted"
	}
	return nil
}

// names says whether a key is one that the rule of the file names.
func (m *metadata) names(key string) bool {
	switch {
	case m.unencryptedSuffix != "":
		return strings.HasSuffix(key, m.unencryptedSuffix)
	case m.encryptedSuffix != "":
		return strings.HasSuffix(key, m.encryptedSuffix)
	case m.unencrypted != nil:
		return m.unencrypted.MatchString(key)
	case m.encrypted != nil:
		return m.encrypted.MatchString(key)
	}
	return false
}

// notes says whether a comment is one that the rule of the file names.
func (m *metadata) notes(comment string) bool {
	switch {
	case m.unencryptedComment != nil:
		return m.unencryptedComment.MatchString(comment)
	case m.encryptedComment != nil:
		return m.encryptedComment.MatchString(comment)
	}
	return false
}

// selects says whether a value is encrypted that stands at a level.
func (m *metadata) selects(l level) bool {
	switch {
	case m.unencryptedSuffix != "" || m.unencrypted != nil:
		return !l.named
	case m.encryptedSuffix != "" || m.encrypted != nil:
		return l.named
	case m.unencryptedComment != nil:
		return !l.noted
	case m.encryptedComment != nil:
		return l.noted
	}
	return true
}
