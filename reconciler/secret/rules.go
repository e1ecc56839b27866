package secret

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// RulesFile is where sops finds out which files it encrypts, in the folder of
// a file or above.
const RulesFile = ".sops.yaml"

// Rules are the creation rules of a repository.
type Rules struct{ byFolder map[string][]creation }

// creation is one creation rule.
type creation struct {
	path *regexp.Regexp // nil: every file
	sel  metadata
	line int
}

// ParseRules reads the files named .sops.yaml of a commit, by their paths.
// Nobody but sops needs them to be right: what is wrong with them is found,
// and the rules that are right count.
func ParseRules(files map[string][]byte) (*Rules, []v1alpha1.Finding) {
	r := &Rules{byFolder: map[string][]creation{}}
	var findings []v1alpha1.Finding
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := newFile(name, files[name])
		if err := f.parseYAML(); err != nil || len(f.docs) != 1 {
			if errors.Is(err, errSyntax) || len(f.docs) > 1 {
				findings = append(findings, v1alpha1.Finding{File: name, Line: 1, Column: 1, Rule: "Syntax", Message: "is no YAML of one document"})
			}
			continue
		}
		rules, problems := f.creations()
		r.byFolder[path.Dir(name)] = rules
		findings = append(findings, refused(f, problems).Findings...)
	}
	return r, findings
}

func (f *file) creations() (rules []creation, problems []problem) {
	list := f.docs[0].get("creation_rules")
	if list == nil {
		return nil, nil
	}
	for i, e := range list.entries {
		if e.comment || e.val.kind != mapKind {
			continue
		}
		c := creation{line: e.val.line}
		if p := c.sel.selection(e.val); p != nil {
			p.message = strings.ReplaceAll(p.message, "sops", fmt.Sprintf("creation_rules[%d]", i))
			p.hint = ""
			problems = append(problems, *p)
			continue
		}
		if text := e.val.str("path_regex"); text != "" {
			re, err := regexp.Compile(text)
			if err != nil || len(text) > maxPattern {
				problems = append(problems, problem{at: e.val.get("path_regex"), field: fmt.Sprintf("creation_rules[%d].path_regex", i), rule: RuleMalformed,
					message: "is no regular expression"})
				continue
			}
			c.path = re
		}
		rules = append(rules, c)
	}
	return rules, problems
}

// find returns the rule by which sops would encrypt a file, and the file that
// has the rule: the first that matches, in the nearest .sops.yaml.
func (r *Rules) find(name string) (*creation, string) {
	if r == nil {
		return nil, ""
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if rules, ok := r.byFolder[dir]; ok {
			rel := strings.TrimPrefix(name, dir+"/")
			for i := range rules {
				if rules[i].path == nil || rules[i].path.MatchString(rel) {
					return &rules[i], path.Join(dir, RulesFile)
				}
			}
			return nil, ""
		}
		if dir == "." || dir == "/" {
			return nil, ""
		}
	}
}

// Check finds the Secrets of a plain file whose values a creation rule says
// must be encrypted. Other objects are left alone: rules for all files are
// usual, and only Secrets are secret by their kind.
func (r *Rules) Check(name string, data []byte) []v1alpha1.Finding {
	rule, from := r.find(name)
	if rule == nil || !bytes.Contains(data, []byte("Secret")) || tooMany(data) {
		return nil
	}
	f := parse(name, data)
	if f == nil {
		return nil
	}
	var out []v1alpha1.Finding
	for _, d := range f.docs {
		if d.str("kind") != "Secret" || d.str("apiVersion") != "v1" || d.get(metadataKey) != nil {
			continue
		}
		for _, field := range []string{"data", "stringData"} {
			if v := d.get(field); v != nil && v.kind == mapKind {
				out = append(out, rule.plain(name, from, field, v)...)
			}
		}
	}
	return out[:min(len(out), maxFindings)]
}

func (c *creation) plain(name, from, field string, v *node) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, e := range v.entries {
		if e.comment || e.val.kind != scalarKind || e.val.text == "" || !c.sel.selects(level{named: c.sel.names(field) || c.sel.names(e.key)}) {
			continue
		}
		out = append(out, v1alpha1.Finding{File: name, Line: e.val.line, Column: e.val.column, Field: field + "." + e.key, Rule: RuleMustEncrypt,
			Message: fmt.Sprintf("%s.%s: is in plain text, and the rule in line %d of %s says that it must be encrypted", field, e.key, c.line, from),
			Hint:    "sops encrypt -i " + name + "; whoever can read the repository knows the secret, so replace it too"})
	}
	return out
}
