package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// secrets are the plain texts of the fixtures, of which no finding may have
// one.
var secrets = []string{"correct horse", "battery", "BEGIN", "AGE-SECRET", "c2VjcmV0", "grüße"}

func told(findings []v1alpha1.Finding) string {
	text := fmt.Sprintf("%+v", findings)
	for _, s := range secrets {
		if strings.Contains(text, s) {
			return s
		}
	}
	return ""
}

func lineOf(t *testing.T, data []byte, word string) int {
	t.Helper()
	i := bytes.Index(data, []byte(word))
	if i < 0 {
		t.Fatalf("no %q", word)
	}
	return 1 + bytes.Count(data[:i], []byte("\n"))
}

// Each file is damaged in one way, and refused with a finding at the place.
func TestOpenBad(t *testing.T) {
	good := string(read(t, "fixtures/secret.yaml"))
	line := func(key string) string { // the whole line of a key
		return regexp.MustCompile(`(?m)^ *` + key + `: .*$`).FindString(good)
	}
	user, pass := line("username"), line("password")
	value := func(l string) string { _, v, _ := strings.Cut(l, ": "); return v }
	for name, c := range map[string]struct {
		text, rule, at string // at: a word of the line of the finding
		column         int
	}{
		"plain value":     {strings.Replace(good, value(pass), "hunter2", 1), RuleHalfEncrypted, "hunter2", 15},
		"plain number":    {strings.Replace(good, value(pass), "5", 1), RuleHalfEncrypted, "password: 5", 15},
		"added value":     {strings.Replace(good, user, user+"\n    added: hunter2", 1), RuleHalfEncrypted, "added: hunter2", 12},
		"swapped values":  {strings.NewReplacer(value(user), value(pass), value(pass), value(user)).Replace(good), RuleTampered, "username:", 15},
		"removed value":   {strings.Replace(good, user+"\n", "", 1), RuleTampered, "    mac:", 10},
		"changed plain":   {strings.Replace(good, "namespace: shop", "namespace: prod", 1), RuleTampered, "    mac:", 10},
		"added plain":     {strings.Replace(good, "type: Opaque", "type: Opaque\nmore: x", 1), RuleTampered, "    mac:", 10},
		"renamed key":     {strings.Replace(good, "username:", "username2:", 1), RuleTampered, "username2:", 16},
		"changed bytes":   {strings.Replace(good, "username: ENC[AES256_GCM,data:", "username: ENC[AES256_GCM,data:AAAA", 1), RuleTampered, "username:", 15},
		"no iv":           {strings.Replace(good, value(user), strings.Replace(value(user), ",iv:", ",xx:", 1), 1), RuleTampered, "username:", 15},
		"other type":      {strings.Replace(good, "type:str]", "type:dream]", 1), RuleTampered, "username:", 15},
		"conflict":        {strings.Replace(good, value(pass), value(pass)+" x", 1), RuleTampered, "password:", 15},
		"encrypted kind":  {strings.Replace(good, "kind: Secret", "kind: "+value(user), 1), RuleHalfEncrypted, "kind:", 7},
		"no mac":          {regexp.MustCompile(`(?m)^    mac: .*\n`).ReplaceAllString(good, ""), RuleMalformed, "sops:", 1},
		"mac of others":   {regexp.MustCompile(`(?m)^    mac: .*$`).ReplaceAllString(good, "    mac: "+value(user)), RuleTampered, "    mac:", 10},
		"later":           {strings.Replace(good, `lastmodified: "20`, `lastmodified: "21`, 1), RuleTampered, "    mac:", 10},
		"no time":         {strings.Replace(good, `lastmodified: "20`, `lastmodified: "x`, 1), RuleMalformed, "lastmodified:", 19},
		"two rules":       {good + "    encrypted_suffix: x\n", RuleMalformed, "sops:", 1},
		"no regexp":       {strings.Replace(good, "^(data|stringData)$", "^(data", 1), RuleMalformed, "encrypted_regex:", 22},
		"wider rule":      {strings.Replace(good, "^(data|stringData)$", "^(data|stringData|type)$", 1), RuleHalfEncrypted, "type: Opaque", 7},
		"narrower rule":   {strings.Replace(good, "^(data|stringData)$", "^data$", 1), RuleHalfEncrypted, "username:", 15},
		"sops is no map":  {good[:strings.Index(good, "sops:")] + "sops: 1\n", RuleMalformed, "sops:", 1},
		"no sops":         {good[:strings.Index(good, "sops:")], RuleHalfEncrypted, "username:", 15},
		"no recipients":   {regexp.MustCompile(`(?s)    age:.*?    encrypted`).ReplaceAllString(good, "    encrypted"), RuleMalformed, "sops:", 1},
		"only a cloud":    {regexp.MustCompile(`(?s)    age:.*?    encrypted`).ReplaceAllString(good, "    kms:\n        - arn: x\n          enc: y\n    encrypted"), RuleUnsupported, "sops:", 1},
		"alias":           {strings.Replace(strings.Replace(good, "kind: Secret", "kind: &t Secret", 1), "namespace: shop", "namespace: *t", 1), RuleMalformed, "namespace:", 16},
		"flow":            {"{a: 1, sops: {mac: x, lastmodified: \"2026-01-01T00:00:00Z\", age: []}}\n", RuleMalformed, "{a", 8},
		"shamir":          {string(read(t, "fixtures/shamir.yaml")), RuleUnsupported, "- age:", 9},
		"second document": {"a: 1\n---\n" + good, RuleMalformed, "sops:", 1},
		"deep":            {strings.Repeat("[", 70) + strings.Repeat("]", 70) + " # sops", "TooDeep", "[", 1},
		"recipients":      {strings.Replace(good, "    age:\n", "    age:\n"+strings.Repeat("        - {enc: x, recipient: y}\n", 200), 1), RuleMalformed, "sops:", 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := keyring(t, "one.agekey", "one.asc").Open("a/b.yaml", []byte(c.text))
			if !o.Encrypted || o.Plain != nil || len(o.Findings) == 0 {
				t.Fatalf("Open = %+v", o)
			}
			f := o.Findings[0]
			if want := lineOf(t, []byte(c.text), c.at); f.File != "a/b.yaml" || f.Rule != c.rule || f.Line != want || f.Column != c.column || f.Message == "" {
				t.Errorf("finding %+v; want %s at line %d column %d", f, c.rule, want, c.column)
			}
			if s := told(o.Findings); s != "" || strings.Contains(fmt.Sprint(o.Findings), "hunter2") {
				t.Errorf("the findings tell %q: %+v", s, o.Findings)
			}
			if m := Mask("a/b.yaml", []byte(c.text)); c.rule != RuleTampered && len(m.Findings) == 0 && name != "no recipients" && name != "only a cloud" {
				t.Error("without a key it is not seen")
			}
		})
	}
}

func TestOpenOtherKey(t *testing.T) {
	for _, c := range []struct{ file, key, hint string }{
		{"secret.yaml", "other.agekey", "age1"},
		{"secret.yaml", "one.asc", "add the private key"},
		{"pgp.yaml", "other.asc", "add the private key"},
		{"pgp.yaml", "one.agekey", "age1"},
		{"foreign.yaml.age", "one.agekey", "age1"},
		{"ssh.yaml", "one.agekey", "age1"},
	} {
		o := keyring(t, c.key).Open(c.file, read(t, "fixtures/"+c.file))
		if o.Plain != nil || len(o.Findings) != 1 || o.Findings[0].Rule != RuleMissingKey || o.Findings[0].Line == 0 || !strings.Contains(o.Findings[0].Hint, c.hint) || told(o.Findings) != "" {
			t.Errorf("%s with %s: %+v", c.file, c.key, o)
		}
	}
	// Of several recipients one is enough.
	for _, key := range []string{"one.agekey", "other.agekey", "other.asc"} {
		if o := keyring(t, key).Open("both.yaml", read(t, "fixtures/both.yaml")); o.Plain == nil {
			t.Errorf("both.yaml with %s: %+v", key, o.Findings)
		}
	}
}

func TestOpenBadAge(t *testing.T) {
	k := keyring(t, "one.agekey")
	good := read(t, "fixtures/whole.yaml.age")
	flipped := bytes.Clone(good)
	flipped[len(flipped)-5] ^= 1
	for name, c := range map[string]struct {
		data []byte
		rule string
	}{
		"flipped":    {flipped, RuleTampered},
		"cut":        {good[:len(good)-20], RuleTampered},
		"no age":     {[]byte("a: 1\n"), RuleMalformed},
		"empty":      {nil, RuleMalformed},
		"cut header": {good[:30], RuleTampered},
		"armor":      {[]byte("-----BEGIN AGE ENCRYPTED FILE-----\nAAAA\n"), RuleTampered},
	} {
		if o := k.Open("x.age", c.data); o.Plain != nil || len(o.Findings) != 1 || o.Findings[0].Rule != c.rule || told(o.Findings) != "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// A Secret of keys that cannot be used says which, and not what is in it.
func TestNewErrors(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"nothing":     {nil, "holds no key"},
		"other names": {map[string][]byte{"key.txt": []byte("AGE-SECRET-KEY-1")}, "holds no key"},
		"typo":        {map[string][]byte{"a.agekey": []byte("# mine\nAGE-SECRET-KEY-1QQQ")}, "read key a.agekey: line 2 is no age identity"},
		"recipient":   {map[string][]byte{"a.agekey": []byte("age1xyz")}, "line 1 is no age identity"},
		"empty":       {map[string][]byte{"a.agekey": []byte("# nothing\n")}, "holds no age identity"},
		"ssh":         {map[string][]byte{"a.agekey": []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n")}, "no SSH private key"},
		"locked":      {map[string][]byte{"a.asc": read(t, "keys/locked.asc")}, "is protected by a passphrase"},
		"no pgp":      {map[string][]byte{"a.asc": []byte("AGE-SECRET-KEY-1")}, "no armored OpenPGP private key"},
		"both":        {map[string][]byte{"a.asc": []byte("x"), "b.agekey": []byte("y")}, "read key b.agekey"},
	} {
		k, err := New(c.data)
		if k != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), "QQQ") || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s tells the key: %v", name, err)
		}
	}
}

func TestRedact(t *testing.T) {
	o := keyring(t, "one.agekey").Open("secret.yaml", read(t, "fixtures/secret.yaml"))
	in := []v1alpha1.Finding{
		{File: "secret.yaml", Line: lineOf(t, o.Plain, "password:"), Field: "stringData.password", Rule: "WrongType", Message: "must be a number", Hint: "not x"},
		{File: "secret.yaml", Line: 1, Rule: "UnknownField", Message: "unknown field"},
		{File: "secret.yaml", Line: 1, Rule: "Invalid", Message: "correct horse: battery # staple is no name"},
	}
	out := o.Redact(in)
	if told(out) != "" || out[0].Hint != "" || out[0].Rule != "WrongType" || out[0].Line != in[0].Line || out[1] != in[1] || out[2].Message == in[2].Message {
		t.Errorf("Redact = %+v", out)
	}
	if in[2].Message != "correct horse: battery # staple is no name" {
		t.Error("the findings were changed in place")
	}
	whole := keyring(t, "one.agekey").Open("a.age", read(t, "fixtures/whole.yaml.age"))
	if out := whole.Redact(in); told(out) != "" || out[1].Message == in[1].Message {
		t.Errorf("Redact = %+v", out)
	}
	if got := (&Opened{}).Redact(in); &got[0] != &in[0] {
		t.Error("findings of a plain file were touched")
	}
}

// The hash of an inventory is made of what is public.
func TestObjectHash(t *testing.T) {
	a, b := ObjectHash("0123", 0), ObjectHash("0123", 1)
	if a == b || a != ObjectHash("0123", 0) || a == ObjectHash("4567", 0) || len(a) != 24 {
		t.Errorf("%s %s", a, b)
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", "a\nb", `"\`, "\x00\x1f\x7f\u0085\u2028\ufeff\uffff🚀é", "<&>", "\t\r"} {
		var back string
		if err := json.Unmarshal([]byte(quote(s)), &back); err != nil || back != s {
			t.Errorf("%q: %q %v", s, back, err)
		}
		f := newFile("a", []byte("k: "+quote(s)))
		if err := f.parseYAML(); err != nil || f.docs[0].str("k") != s {
			t.Errorf("%q as YAML: %q %v", s, quote(s), err)
		}
	}
}

// Files that would cost hours if what is above a value were looked at for each
// of them.
func TestOpenHostile(t *testing.T) {
	k := keyring(t, "one.agekey")
	good := string(read(t, "fixtures/encryptedcomment.yaml"))
	meta := good[strings.Index(good, "\nsops:")+1:]
	for name, text := range map[string]string{
		"comments": "a:\n" + strings.Repeat("  # nothing\n", 200_000) + "  b:\n" + strings.Repeat("  - x\n", 200_000) + meta,
		"long key": "? " + strings.Repeat("k", 1000) + strings.Repeat("k", 3<<20) + "\n:\n" + strings.Repeat("  - x\n", 200_000) + meta,
		"stray":    "? " + strings.Repeat("k", 3<<20) + "\n:\n" + strings.Repeat("  - ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]\n", 50_000),
	} {
		if o := k.Open("a.yaml", []byte(text)); !o.Encrypted || len(o.Findings) == 0 || len(o.Findings) > maxFindings {
			t.Errorf("%s: %v, %d findings", name, o.Encrypted, len(o.Findings))
		}
	}
}

func FuzzOpen(f *testing.F) {
	k := keyring(f, "one.agekey", "one.asc")
	for _, name := range []string{"secret.yaml", "pgp.yaml", "multi.yaml", "json.json", "binary.json", "encryptedcomment.yaml", "shamir.yaml", "whole.yaml.age"} {
		f.Add(read(f, "fixtures/"+name))
	}
	f.Add([]byte("sops: {mac: a, lastmodified: \"2026-01-01T00:00:00Z\"}\n? a\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		plain, findings, encrypted := k.Decrypt("a.yaml", data)
		switch {
		case !bytes.Equal(before, data):
			t.Fatal("the file was changed in place")
		case !encrypted && !bytes.Equal(plain, data):
			t.Fatal("a plain file was changed")
		case encrypted && (plain == nil) == (len(findings) == 0):
			t.Fatalf("a plain text and findings, or neither: %v", findings)
		}
		Mask("a.yaml", data)
	})
}

func TestRules(t *testing.T) {
	rules, findings := ParseRules(map[string][]byte{
		".sops.yaml":      []byte("creation_rules:\n- path_regex: ^secrets/\n  age: age1\n- path_regex: \\.enc\\.yaml$\n  encrypted_regex: ^data$\n"),
		"apps/.sops.yaml": []byte("creation_rules:\n- path_regex: '['\n- encrypted_regex: '('\n- path_regex: ^own\n"),
	})
	if len(findings) != 2 || findings[0].Line != 2 || findings[0].File != "apps/.sops.yaml" || findings[1].Line != 3 {
		t.Errorf("findings: %+v", findings)
	}
	const doc = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  password: hunter2\ndata:\n  token: aHVudGVyMg==\n"
	for path, want := range map[string]int{
		"secrets/a.yaml": 2, "a.yaml": 0, "a.enc.yaml": 1, "apps/secrets/a.yaml": 0, "apps/own.yaml": 2, "apps/x/own.yaml": 0,
	} {
		got := rules.Check(path, []byte(doc))
		if len(got) != want {
			t.Errorf("%s: %+v", path, got)
		}
		if text := fmt.Sprint(got); strings.Contains(text, "hunter2") || strings.Contains(text, "aHVud") {
			t.Errorf("%s tells the secret: %s", path, text)
		}
		for _, f := range got {
			if f.Rule != RuleMustEncrypt || f.Line < 5 || f.Column == 0 || f.Field == "" {
				t.Errorf("%s: %+v", path, f)
			}
		}
	}
	for _, other := range []string{strings.Replace(doc, "kind: Secret", "kind: ConfigMap", 1), "kind: Secret\napiVersion: v1\n", "Secret: [", string(read(t, "fixtures/secret.yaml"))} {
		if got := rules.Check("secrets/a.yaml", []byte(other)); len(got) > 0 {
			t.Errorf("%s\n%+v", other, got)
		}
	}
	if got := (*Rules)(nil).Check("secrets/a.yaml", []byte(doc)); got != nil {
		t.Errorf("without rules: %+v", got)
	}
}
