package trust

import (
	"fmt"
	"strings"
	"testing"
)

// Each policy is wrong in the ways that the lines beside it say.
func TestParseFindings(t *testing.T) {
	_, pub := sshKey(t, "alice", "-t", "ed25519")
	_, rsa := sshKey(t, "short", "-t", "rsa", "-b", "1024")
	good := "keys:\n- {name: alice, type: ssh, key: " + pub + "}\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "1:1 Required the policy is empty"},
		"no YAML":         {"a: [\n", "Syntax"},
		"no map":          {"- a\n", "1:1 WrongType must be a map"},
		"two documents":   {good + "---\na: 1\n", "3:1 Syntax one document"},
		"unknown field":   {good + "rulez: []\n", `3:1 UnknownField unknown field "rulez"`},
		"no keys":         {"rules: []\n", "1:1 Required no keys"},
		"own rule":        {good + "rules:\n- path: \"*\"\n", "4:1 Required no rule says who may change the policy itself"},
		"overridden":      {good + "rules:\n- path: /.writ/\n- path: \"*\"\n", "5:1 Forbidden comes after the one for /.writ/"},
		"unknown signer":  {good + "rules:\n- {path: /.writ/, signers: [Alice]}\n", `4:29 NotFound there is no key and no group "Alice"`},
		"empty signers":   {good + "rules:\n- {path: /.writ/, signers: []}\n", "4:28 OutOfRange must not be empty"},
		"null signers":    {good + "rules:\n- path: /.writ/\n  signers:\n", "5:11 OutOfRange must not be empty"},
		"minimum":         {good + "rules:\n- {path: /.writ/, minimum: 2}\n", "4:3 OutOfRange 2 signers are asked for, and only 1"},
		"minimum zero":    {good + "rules:\n- {path: /.writ/, minimum: 0}\n", "4:28 OutOfRange"},
		"pattern":         {good + "rules:\n- {path: \"!x\"}\n- {path: /.writ/}\n", "4:10 Syntax ! is not known"},
		"two names":       {good + "groups:\n- {name: alice, members: [alice]}\nrules: [{path: /.writ/}]\n", "4:10 Duplicate"},
		"unknown member":  {good + "groups:\n- {name: g, members: [bob]}\nrules: [{path: /.writ/}]\n", "4:23 NotFound"},
		"short key":       {"keys:\n- {name: a, type: ssh, key: " + rsa + "}\nrules: [{path: /.writ/}]\n", "2:29 Syntax less than 2048 bits"},
		"no key":          {"keys:\n- {name: a, type: ssh, key: hello}\n", "2:29 Syntax no SSH public key"},
		"options":         {"keys:\n- {name: a, type: ssh, key: 'no-pty " + pub + "'}\n", "2:29 Syntax without options"},
		"no pgp key":      {"keys:\n- {name: a, type: openpgp, key: hello}\n", "no armored OpenPGP public key"},
		"type":            {"keys:\n- {name: a, type: x509, key: hello}\n", "neither ssh nor openpgp"},
		"missing name":    {"keys:\n- {type: ssh, key: " + pub + "}\n", "2:3 Required name is required"},
		"times":           {"keys:\n- {name: a, type: ssh, key: " + pub + ", validAfter: 2027-01-01, validBefore: 2026-01-01}\n", "OutOfRange validBefore must be later"},
		"no time":         {"keys:\n- {name: a, type: ssh, key: " + pub + ", validAfter: soon}\n", "WrongType must be a time"},
		"alias":           {"keys: &k\n- {name: a, type: ssh, key: " + pub + "}\nrules: *k\n", "3:8 Syntax no aliases"},
		"double key":      {good + "rules: []\nrules: []\n", "4:1 DuplicateKey already set in line 3"},
		"scope":           {good + "rules: [{path: /.writ/}]\nscopes:\n- {paths: [/a/]}\n", "5:3 Required a scope needs allow"},
		"scope kinds":     {good + "rules: [{path: /.writ/}]\nscopes:\n- allow: [{namespaces: [a]}]\n", "5:11 Required allow needs kinds"},
		"scope namespace": {good + "rules: [{path: /.writ/}]\nscopes:\n- allow: [{kinds: [a]}]\n", "5:11 Required allow needs namespaces, or clusterScoped"},
		"boolean":         {good + "rules: [{path: /.writ/}]\nallowRewrite: maybe\n", "4:15 WrongType must be true or false"},
		"large":           {good + "# " + strings.Repeat("x", maxPolicy), "TooLarge"},
	} {
		p, findings := Parse(File, []byte(c.text))
		var have []string
		for _, f := range findings {
			if f.File != File {
				t.Errorf("%s: file %q", name, f.File)
			}
			have = append(have, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Rule, f.Message))
		}
		if p != nil || !placed(have, c.want) {
			t.Errorf("%s: have\n%s\nwant %s", name, strings.Join(have, "\n"), c.want)
		}
	}
}

// placed says whether one finding has the words of want, in this order.
func placed(have []string, want string) bool {
	for _, h := range have {
		rest, ok := h, true
		for w := range strings.FieldsSeq(want) {
			var after string
			if _, after, ok = strings.Cut(rest, w); !ok {
				break
			}
			rest = after
		}
		if ok {
			return true
		}
	}
	return false
}

// All that is wrong with a policy is found at once.
func TestParseAll(t *testing.T) {
	_, findings := Parse(File, []byte("keys:\n- {name: a, typo: 1}\nrules:\n- {path: \"[\"}\nscopes: 3\nmore: 1\n"))
	if len(findings) < 6 {
		t.Errorf("%d findings: %+v", len(findings), findings)
	}
}

// A private key that was put in by mistake is not repeated.
func TestParsePrivateKey(t *testing.T) {
	_, findings := Parse(File, []byte("keys:\n- name: a\n  type: ssh\n  key: |\n    -----BEGIN OPENSSH PRIVATE KEY-----\n    c2VjcmV0c2VjcmV0\n    -----END OPENSSH PRIVATE KEY-----\n"))
	if len(findings) == 0 || strings.Contains(fmt.Sprint(findings), "c2VjcmV0") {
		t.Errorf("findings: %+v", findings)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte("keys:\n- {name: a, type: ssh, key: x}\ngroups: [{name: g, members: [a]}]\nrules: [{path: /.writ/, signers: [g], minimum: 2}]\nscopes: [{paths: [a], allow: [{kinds: [a], namespaces: [b]}]}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, findings := Parse(File, data)
		if (p == nil) == (len(findings) == 0) {
			t.Fatal("a policy and findings, or neither")
		}
	})
}
