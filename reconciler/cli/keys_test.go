package cli

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// TestKeys: the keys are found where the sops program finds them, and what they
// open is judged and compared, and never shown.
func TestKeys(t *testing.T) {
	key := filepath.Join("..", "secret", "testdata", "keys", "one.agekey")
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := os.ReadFile(filepath.Join("..", "secret", "testdata", "fixtures", "secret.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.yaml": string(sealed)})
	env := func(vars ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(vars); i += 2 {
				if vars[i] == name {
					return vars[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		name, file string
		env        func(string) string
		opens      bool
		wrong      string
	}{
		{"none", "", env(), false, ""},
		{"flag", key, env("SOPS_AGE_KEY_FILE", "/nowhere"), true, ""},
		{"file", "", env("SOPS_AGE_KEY_FILE", key), true, ""},
		{"variable", "", env("SOPS_AGE_KEY", string(text)), true, ""},
		{"no file", "/nowhere", env(), false, "name the file of identities by --age-key"},
		{"no key", "", env("SOPS_AGE_KEY", "s3cr3t"), false, "SOPS_AGE_KEY has no age identity that can be used"},
	} {
		keys, err := ReadKeys(c.file, c.env)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || (keys != nil) != c.opens {
			t.Fatalf("%s: %v", c.name, err)
		}
		o := Options{Keys: keys}
		if findings, err := CheckDir(t.Context(), dir, o); err != nil || len(findings) > 0 {
			t.Errorf("%s: %v %v", c.name, err, findings)
		}
		p, err := PlanDir(t.Context(), dir, client.NewFake(), o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var out bytes.Buffer
		for _, format := range []Options{{}, {JSON: true}, {Markdown: true}} {
			if err := WritePlan(&out, p, format); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(out.String(), "Secret/") {
			t.Errorf("%s: %s", c.name, out.String())
		}
		for _, value := range []string{"correct horse", "c2VjcmV0", "-----BEGIN", base64.StdEncoding.EncodeToString([]byte("admin"))} {
			if strings.Contains(out.String(), value) {
				t.Errorf("%s shows %q:\n%s", c.name, value, out.String())
			}
		}
	}
	other, err := ReadKeys(filepath.Join("..", "secret", "testdata", "keys", "other.agekey"), env())
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := CheckDir(t.Context(), dir, Options{Keys: other}); err != nil || len(findings) == 0 {
		t.Errorf("the key of another: %v %v", err, findings)
	}
}

// TestSealedIsNotRemoved: what is in a file whose key is not here was not
// removed: check and plan say that the key is missing, and a plan deletes
// nothing. With the key nothing is to be done.
func TestSealedIsNotRemoved(t *testing.T) {
	fixtures := filepath.Join("..", "secret", "testdata")
	sealed, err := os.ReadFile(filepath.Join(fixtures, "fixtures", "whole.yaml.age"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ReadKeys(filepath.Join(fixtures, "keys", "one.agekey"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	built := t.TempDir()
	write(t, built, map[string]string{"ns.yaml": namespace, "app/whole.yaml.age": string(sealed), "app/kustomization.yaml": "resources: [whole.yaml.age]\n"})
	if found, err := CheckDir(t.Context(), built, Options{}); err != nil || len(found) != 1 || found[0].Rule != "MissingKey" || found[0].File != "app/whole.yaml.age" {
		t.Errorf("check of a kustomization without the key: %v %v", err, found)
	}
	if p, err := PlanDir(t.Context(), built, client.NewFake(), Options{Keys: keys}); err != nil || len(p.Findings) > 0 || p.Declared != 2 || len(p.Ops) != 2 {
		t.Errorf("plan of a kustomization with the key: %v %v", err, p)
	}
	bare := t.TempDir()
	write(t, bare, map[string]string{"ns.yaml": namespace, "secret.age": string(sealed)})
	if found, err := CheckDir(t.Context(), bare, Options{Keys: keys}); err != nil || len(found) != 1 || found[0].Rule != "NamelessFile" {
		t.Errorf("check of a file whose name says nothing: %v %v", err, found)
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"ns.yaml": namespace, "whole.yaml.age": string(sealed)})
	cluster := client.NewFake(&v1alpha1.Repository{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Repository"},
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.RepositorySpec{Decryption: &v1alpha1.RepositoryDecryption{Secret: "writ/keys"}}})
	p, err := PlanDir(t.Context(), dir, cluster, Options{Keys: keys})
	if err != nil || len(p.Findings) > 0 || p.Declared < 2 {
		t.Fatal(err, p.Findings, p.Declared)
	}
	if _, err := apply.Do(t.Context(), cluster, p); err != nil {
		t.Fatal(err)
	}
	p, err = PlanDir(t.Context(), dir, cluster, Options{})
	if err != nil || len(p.Findings) != 1 || p.Findings[0].Rule != "MissingKey" || len(p.Ops) > 0 || !strings.Contains(p.Findings[0].Hint, "the Secret writ/keys") {
		t.Errorf("without the key: %v %v %v", err, p.Findings, p.Ops)
	}
	if found, err := CheckDir(t.Context(), dir, Options{}); err != nil || len(found) != 1 || found[0].Rule != "MissingKey" || !strings.Contains(found[0].Hint, "--age-key") {
		t.Errorf("check without the key: %v %v", err, found)
	}
	if p, err = PlanDir(t.Context(), dir, cluster, Options{Keys: keys}); err != nil || len(p.Findings)+len(p.Ops) > 0 {
		t.Errorf("with the key: %v %v %v", err, p.Findings, p.Ops)
	}
}
