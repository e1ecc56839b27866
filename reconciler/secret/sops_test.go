package secret

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"filippo.io/age"
	"go.yaml.in/yaml/v3"
)

const sopsFiles = 60

// What the real sops encrypts is read as sops reads it, for random content and
// random rules. sops is in no distribution's archive, so this runs only where
// somebody has installed it; the fixtures of testdata stand for it elsewhere.
func TestOpenWithSops(t *testing.T) {
	if _, err := exec.LookPath("sops"); err != nil {
		t.Skip("sops is not installed; the files that it made are in testdata")
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(map[string][]byte{"a.agekey": []byte(id.String())})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sops := func(args ...string) ([]byte, error) {
		cmd := exec.Command("sops", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "SOPS_AGE_KEY_FILE="+keys)
		return cmd.Output()
	}
	opened := 0
	for seed := range uint64(sopsFiles) {
		r := rand.New(rand.NewPCG(seed, 2))
		doc := map[string]any{"kind": "Secret", "k1": randomValue(r, 0), "k2": randomValue(r, 1), "k3_unencrypted": randomValue(r, 2), "text": randomText(r)}
		var n bytes.Buffer
		if err := yaml.NewEncoder(&n).Encode(nodeOf(doc)); err != nil {
			t.Fatal(err)
		}
		name := []string{"a.yaml", "a.json"}[seed%2]
		if name == "a.json" {
			n.Reset()
			n.WriteString(jsonOf(doc))
		}
		if err := os.WriteFile(filepath.Join(dir, name), n.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		rule := [][]string{nil, {"--encrypted-regex", "^k[12]$"}, {"--unencrypted-regex", "^k1"}, {"--encrypted-suffix", "t"}}[r.IntN(4)]
		data, err := sops(append(append([]string{"encrypt", "--age", id.Recipient().String()}, rule...), name)...)
		if err != nil {
			continue // what sops cannot read itself
		}
		if err := os.WriteFile(filepath.Join(dir, "e"+name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		want, err := sops("decrypt", "e"+name)
		if err != nil {
			continue // nor read back
		}
		o := k.Open(name, data)
		if o.Plain == nil {
			t.Errorf("seed %d: %+v\n%s", seed, o.Findings, data)
			continue
		}
		if a, b := timesAsText(documents(t, name, o.Plain)), timesAsText(documents(t, name, want)); !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d:\nhave %#v\nwant %#v\n%s", seed, a, b, data)
		}
		opened++
	}
	if opened < sopsFiles/2 {
		t.Errorf("sops made and read only %d of %d files", opened, sopsFiles)
	}
}
