package cuerule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/cuerule/cueruletest"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const schema = `#Rule: close({match: close({_match}), except: _except, say?: string})`

// read returns the rules of some packages, and what is wrong with them.
func read(t *testing.T, tree render.Tree) (rules []cuerule.Rule, wrong []string) {
	t.Helper()
	files, err := render.Policies(tree)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := files.Read()
	if err != nil {
		t.Fatal(err)
	}
	packages, findings := sources.Load()
	ctx := cuecontext.New()
	for _, inst := range packages {
		p := cuerule.Build(ctx, inst)
		findings = append(findings, p.Read(func(r cuerule.Rule, own cue.Value) error {
			v := own.Unify(cuerule.Schema(ctx, schema))
			if err := r.ReadMatch(v); err != nil {
				return err
			}
			if r.Name == "refused" {
				return errors.New("refused")
			}
			if err := v.Validate(); err != nil {
				return err
			}
			rules = append(rules, r)
			return nil
		}, func(r *cuerule.Rule, f *v1alpha1.Finding) { f.Message = r.Name + ": " + f.Message })...)
		if !p.HasRules() {
			wrong = append(wrong, p.Place().Filename+" has no rules")
		}
	}
	for _, f := range findings {
		wrong = append(wrong, fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Message))
	}
	return rules, wrong
}

func TestMeans(t *testing.T) {
	object := cuerule.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop-a", Name: "web",
		Labels: func() map[string]string { return map[string]string{"tier": "front"} }}
	for match, want := range map[string]bool{
		`match: {}`:                   true,
		`match: kind: "Deployment"`:   true,
		`match: kind: "Deploy*"`:      true,
		`match: kind: "Job"`:          false,
		`match: kind: ["Job", "D*t"]`: true,
		`match: {apiVersion: "apps/*", namespace: "shop-?", name: "web"}`: true,
		`match: {apiVersion: "v1", kind: "Deployment"}`:                   false,
		`match: {kind: "Deployment", name: "db"}`:                         false,
		`match: namespace: "["`:                                           false, // no pattern, and not its name
		`match: labels: tier: "fr*"`:                                      true,
		`match: labels: tier: "back"`:                                     false,
		`match: labels: {tier: "front", app: "*"}`:                        false,
		`{match: {}, except: [{name: "db"}, {namespace: "shop-*"}]}`:      false,
		`{match: {}, except: [{kind: "Deployment", name: "db"}]}`:         true,
	} {
		rules, wrong := read(t, cueruletest.Files(map[string]string{"policy/a.cue": "package policy\nrules: r: " + match + "\n"}))
		if len(rules) != 1 || len(wrong) > 0 {
			t.Errorf("%s: %v %v", match, rules, wrong)
		} else if got := rules[0].Means(&object); got != want {
			t.Errorf("%s: %v", match, got)
		}
	}
}

func TestRead(t *testing.T) {
	rules, wrong := read(t, cueruletest.Files(map[string]string{"policy/a.cue": `package policy

rules: good: match: {}
rules: refused: match: {}
rules: typo: {
	match: knd: "x"
}
rules: unknown: {
	match: {}
	sya: "x"
}
`}))
	if len(rules) != 1 || rules[0].Name != "good" || rules[0].Pos.Filename != "policy/a.cue" || rules[0].Pos.Line != 3 {
		t.Error(rules)
	}
	slices.Sort(wrong)
	want := "policy/a.cue:10 unknown: field not allowed; policy/a.cue:4 refused: refused; policy/a.cue:6 typo: field not allowed"
	if got := strings.Join(wrong, "; "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestNoRules: a package without rules says so, or what CUE says of it.
func TestNoRules(t *testing.T) {
	for text, want := range map[string]string{
		"x: 1":                "policy/a.cue has no rules",
		"x: 1 & 2\nrules: {}": "policy/a.cue:2 conflicting values 2 and 1",
	} {
		rules, wrong := read(t, cueruletest.Files(map[string]string{"policy/a.cue": "package policy\n" + text + "\n"}))
		if len(rules) > 0 || len(wrong) != 1 || wrong[0] != want {
			t.Errorf("%s: %v %v", text, rules, wrong)
		}
	}
}
