package render

import "testing"

// clusters is a repository of which a folder is followed.
type clusters struct{ repository }

func (clusters) Root() string { return "clusters/prod" }

// TestRulesAbove: the rules of sops count for what is below them, also from above
// the folder that is followed; the nearest file has the word.
func TestRulesAbove(t *testing.T) {
	const (
		plain = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {\"password\": \"hunter2\"}\n"
		every = "creation_rules:\n- age: age1x\n"
		other = "creation_rules:\n- path_regex: ^apps/\n  age: age1x\n"
		these = "creation_rules:\n- path_regex: ^clusters/prod/\n  age: age1x\n"
	)
	for _, tt := range []struct {
		name  string
		files map[string]string
		says  string // the file of the rule; "": nobody says anything
	}{
		{"none", nil, ""},
		{"of the repository", map[string]string{".sops.yaml": these}, ".sops.yaml"},
		{"of other folders", map[string]string{".sops.yaml": other}, ""},
		{"between", map[string]string{"clusters/.sops.yaml": every}, "clusters/.sops.yaml"},
		{"the nearest is about others", map[string]string{".sops.yaml": every, "clusters/.sops.yaml": other}, ""},
		{"beside", map[string]string{"clusters/test/.sops.yaml": every}, ""},
		{"in it", map[string]string{".sops.yaml": other, "clusters/prod/.sops.yaml": every}, "clusters/prod/.sops.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, followed := memTree{"clusters/prod/db.yaml": plain}, memTree{"clusters/prod/db.yaml": plain}
			for name, content := range tt.files {
				if all[name] = content; below(name, "clusters/prod") {
					followed[name] = content
				}
			}
			units, findings, err := Scan(clusters{repository{followed, all}})
			if err != nil || len(findings) > 0 || len(units) != 1 {
				t.Fatal(units, findings, err)
			}
			out, err := Render(t.Context(), &units[0])
			if err != nil {
				t.Fatal(err)
			}
			if (len(out.Plain) == 1) != (tt.says != "") {
				t.Fatalf("said %v, want it of %q", out.Plain, tt.says)
			}
			if tt.says == "" {
				return
			}
			want := "stringData.password: is in plain text, and the rule in line 2 of " + tt.says + " says that it must be encrypted"
			if f := out.Plain[0]; f.File != "clusters/prod/db.yaml" || f.Line != 4 || f.Message != want {
				t.Errorf("%+v\nwant %s", f, want)
			}
		})
	}
}
