package trust

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Limits of a policy.
const (
	maxPolicy   = 1 << 20 // bytes
	maxItems    = 2000    // of one list
	maxFindings = 100
)

// Parse reads a policy. file is the name that findings have. The policy is nil
// when there are findings: half of a policy would not be what its author meant.
func Parse(file string, data []byte) (*Policy, []v1alpha1.Finding) {
	d := &decoder{file: file}
	p := d.policy(data)
	if len(d.findings) > 0 {
		return nil, d.findings
	}
	return p, nil
}

// decoder reads YAML strictly, and remembers all that is wrong.
type decoder struct {
	file     string
	findings []v1alpha1.Finding
}

func (d *decoder) find(n *yaml.Node, field, rule, message, hint string) {
	if len(d.findings) < maxFindings {
		d.findings = append(d.findings, v1alpha1.Finding{File: d.file, Line: max(n.Line, 1), Column: max(n.Column, 1), Field: field, Rule: rule, Message: message, Hint: hint})
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (d *decoder) policy(data []byte) *Policy {
	if len(data) > maxPolicy {
		d.find(&yaml.Node{}, "", "TooLarge", fmt.Sprintf("the policy is larger than %d MiB", maxPolicy>>20), "")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		d.find(&yaml.Node{}, "", "Required", "the policy is empty", "it needs keys and rules")
		return nil
	}
	if err == nil {
		if err = dec.Decode(&more); errors.Is(err, io.EOF) {
			return d.root(doc.Content[0])
		} else if err == nil {
			d.find(&more, "", "Syntax", "the policy must be one document", "")
			return nil
		}
	}
	n, message := &yaml.Node{}, err.Error()
	if m := yamlLine.FindStringSubmatch(strings.ReplaceAll(message, "\n", " ")); m != nil {
		message = m[2]
		n.Line, _ = strconv.Atoi(m[1])
	}
	d.find(n, "", "Syntax", message, "")
	return nil
}

// root reads the document.
func (d *decoder) root(n *yaml.Node) *Policy {
	p := &Policy{groups: map[string][]string{}}
	f := d.object(n, "", "keys", "groups", "rules", "scopes", "allowRewrite")
	for i, item := range d.list(f["keys"], "keys") {
		if k, ok := d.key(item, fmt.Sprintf("keys[%d]", i)); ok {
			p.keys = append(p.keys, k)
		}
	}
	if f != nil && len(p.keys) == 0 && len(d.findings) == 0 {
		d.find(n, "keys", "Required", "the policy has no keys, so nobody could change anything", "")
	}
	names := map[string]bool{}
	for _, k := range p.keys {
		names[k.Name] = true
	}
	d.groups(p, f["groups"], names)
	for i, item := range d.list(f["rules"], "rules") {
		if r, ok := d.rule(item, fmt.Sprintf("rules[%d]", i), names); ok {
			if len(d.findings) == 0 {
				d.reachable(p, &r, item, fmt.Sprintf("rules[%d]", i))
			}
			p.rules = append(p.rules, r)
		}
	}
	for i, item := range d.list(f["scopes"], "scopes") {
		p.scopes = append(p.scopes, d.scope(item, fmt.Sprintf("scopes[%d]", i), names))
	}
	p.AllowRewrite = d.boolean(f["allowRewrite"], "allowRewrite")
	if len(d.findings) == 0 {
		d.ownRule(p, n, f["rules"])
	}
	return p
}

// ownRule asks for a rule that speaks of the policy itself: a rule for all
// files that covers it by chance would let everybody rewrite the policy.
func (d *decoder) ownRule(p *Policy, n, rules *yaml.Node) {
	r := p.ruleFor(File)
	if r != nil && strings.HasPrefix(strings.TrimPrefix(r.path.text, "/"), ".writ") {
		return
	}
	if rules == nil {
		rules = n
	}
	if r != nil {
		for i := range p.rules[:len(p.rules)-1] {
			if own := &p.rules[i]; strings.HasPrefix(strings.TrimPrefix(own.path.text, "/"), ".writ") && own.path.match(File) {
				d.find(&yaml.Node{Line: r.line, Column: 1}, "rules", "Forbidden", fmt.Sprintf("the rule for %s comes after the one for %s and takes its place, so other signers could change the policy", r.path.text, own.path.text),
					"move the rule for "+own.path.text+" to the end")
				return
			}
		}
	}
	d.find(rules, "rules", "Required", "no rule says who may change the policy itself", "add a last rule with path: /.writ/ and its signers")
}

// reachable refuses a rule that asks for more signers than there are.
func (d *decoder) reachable(p *Policy, r *rule, n *yaml.Node, field string) {
	have := map[string]bool{}
	for _, k := range p.keys {
		if p.includes(r.signers, k.Name) {
			have[k.Name] = true
		}
	}
	if r.minimum > len(have) {
		d.find(n, field+".minimum", "OutOfRange", fmt.Sprintf("%d signers are asked for, and only %d are named", r.minimum, len(have)), "")
	}
}

func (d *decoder) groups(p *Policy, n *yaml.Node, names map[string]bool) {
	for i, item := range d.list(n, "groups") {
		at := fmt.Sprintf("groups[%d]", i)
		f := d.object(item, at, "name", "members")
		name := d.required(item, f, at, "name")
		for _, m := range d.strings(f["members"], at+".members") {
			if !names[m.Value] {
				d.unknownName(m, at+".members", names)
				continue
			}
			p.groups[name] = append(p.groups[name], m.Value)
		}
		switch {
		case name == "":
		case names[name]:
			d.find(f["name"], at+".name", "Duplicate", fmt.Sprintf("%q is already the name of a key or a group", name), "")
		case len(p.groups[name]) == 0 && f["members"] == nil:
			d.find(item, at+".members", "Required", "a group needs members", "")
		}
	}
	for name := range p.groups {
		names[name] = true
	}
}

func (d *decoder) unknownName(n *yaml.Node, field string, names map[string]bool) {
	hint := ""
	for name := range names {
		if strings.EqualFold(name, n.Value) && (hint == "" || name < hint) {
			hint = name
		}
	}
	if hint != "" {
		hint = fmt.Sprintf("did you mean %q?", hint)
	}
	d.find(n, field, "NotFound", fmt.Sprintf("there is no key and no group %q", n.Value), hint)
}

var keyFields = []string{"name", "type", "key", "mails", "validAfter", "validBefore"}

func (d *decoder) key(n *yaml.Node, at string) (Key, bool) {
	before := len(d.findings)
	f := d.object(n, at, keyFields...)
	if f == nil {
		return Key{}, false
	}
	k := Key{Name: d.required(n, f, at, "name"), Type: d.required(n, f, at, "type")}
	text := d.required(n, f, at, "key")
	if strings.ContainsAny(k.Name, "<>\n") {
		d.find(f["name"], at+".name", "Syntax", "a name is one line without < and >", "")
	}
	for _, m := range d.strings(f["mails"], at+".mails") {
		k.Mails = append(k.Mails, m.Value)
	}
	k.ValidAfter = d.time(f["validAfter"], at+".validAfter")
	k.ValidBefore = d.time(f["validBefore"], at+".validBefore")
	if !k.ValidAfter.IsZero() && !k.ValidBefore.IsZero() && !k.ValidAfter.Before(k.ValidBefore) {
		d.find(f["validBefore"], at+".validBefore", "OutOfRange", "validBefore must be later than validAfter", "")
	}
	if len(d.findings) == before {
		if err := k.read(text); err != nil {
			d.find(f["key"], at+".key", "Syntax", err.Error(), "")
		}
	}
	return k, len(d.findings) == before
}

// read parses the key itself. Its errors do not quote it: by mistake it may be
// a private one.
func (k *Key) read(text string) error {
	var err error
	switch k.Type {
	case "ssh":
		if k.ssh, err = parseSSHKey(text); err == nil {
			k.Fingerprint = ssh.FingerprintSHA256(k.ssh)
		}
	case "openpgp":
		if k.pgp, err = parsePGPKey(text); err == nil {
			k.Fingerprint = fmt.Sprintf("%X", k.pgp[0].PrimaryKey.Fingerprint)
		}
	default:
		return errors.New("has a type that is neither ssh nor openpgp")
	}
	return err
}

func (d *decoder) rule(n *yaml.Node, at string, names map[string]bool) (rule, bool) {
	before := len(d.findings)
	f := d.object(n, at, "path", "signers", "minimum")
	if f == nil {
		return rule{}, false
	}
	r := rule{line: n.Line, minimum: 1}
	if text := d.required(n, f, at, "path"); text != "" {
		r.path = d.pattern(f["path"], at+".path")
	}
	r.signers = d.signers(f["signers"], at+".signers", names)
	if m := f["minimum"]; m != nil {
		if err := m.Decode(&r.minimum); err != nil || r.minimum < 1 {
			d.find(m, at+".minimum", "OutOfRange", "minimum must be a number of at least 1", "")
		}
	}
	return r, len(d.findings) == before
}

func (d *decoder) scope(n *yaml.Node, at string, names map[string]bool) scope {
	f := d.object(n, at, "paths", "signers", "authors", "allow")
	var s scope
	for i, p := range d.strings(f["paths"], at+".paths") {
		s.paths = append(s.paths, d.pattern(p, fmt.Sprintf("%s.paths[%d]", at, i)))
	}
	s.signers = d.signers(f["signers"], at+".signers", names)
	s.authors = values(d.strings(f["authors"], at+".authors"))
	if f != nil && f["allow"] == nil {
		d.find(n, at+".allow", "Required", "a scope needs allow: what the files may declare", "")
	}
	for i, item := range d.list(f["allow"], at+".allow") {
		field := fmt.Sprintf("%s.allow[%d]", at, i)
		a := d.object(item, field, "kinds", "namespaces", "names", "clusterScoped")
		out := allow{kinds: values(d.strings(a["kinds"], field+".kinds")), namespaces: values(d.strings(a["namespaces"], field+".namespaces")),
			names: values(d.strings(a["names"], field+".names")), cluster: d.boolean(a["clusterScoped"], field+".clusterScoped")}
		if a != nil && len(out.kinds) == 0 {
			d.find(item, field+".kinds", "Required", "allow needs kinds; * means every kind", "")
		}
		if a != nil && len(out.namespaces) == 0 && !out.cluster {
			d.find(item, field+".namespaces", "Required", "allow needs namespaces, or clusterScoped: true", "")
		}
		s.allow = append(s.allow, out)
	}
	return s
}

func (d *decoder) signers(n *yaml.Node, at string, names map[string]bool) []string {
	var out []string
	for i, s := range d.strings(n, at) {
		if !names[s.Value] {
			d.unknownName(s, fmt.Sprintf("%s[%d]", at, i), names)
			continue
		}
		out = append(out, s.Value)
	}
	return out
}

func (d *decoder) pattern(n *yaml.Node, at string) pattern {
	p, err := parsePattern(n.Value)
	if err != nil {
		d.find(n, at, "Syntax", err.Error(), "")
		p = pattern{n.Value, regexp.MustCompile(`\z.`)}
	}
	return p
}
