package secret

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// keyring reads keys of testdata, which were made for these tests.
func keyring(t testing.TB, names ...string) *Keyring {
	t.Helper()
	data := map[string][]byte{"ignored": []byte("not a key")}
	for _, n := range names {
		data[n] = read(t, "keys/"+n)
	}
	k, err := New(data)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// documents decodes all documents of a YAML or JSON file.
func documents(t testing.TB, name string, data []byte) []any {
	t.Helper()
	if strings.HasSuffix(name, ".json") {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		return []any{v}
	}
	var out []any
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var v any
		if err := dec.Decode(&v); err != nil {
			if err.Error() == "EOF" {
				return out
			}
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		out = append(out, v)
	}
}

// timesAsText makes times texts: manifests have none.
func timesAsText(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = timesAsText(v[k])
		}
	case []any:
		for i := range v {
			v[i] = timesAsText(v[i])
		}
	case interface{ MarshalText() ([]byte, error) }:
		b, _ := v.MarshalText()
		return string(b)
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case int:
		return int64(v)
	}
	return v
}

// Every file that the real sops has made says what sops itself reads in it, on
// the lines where the file has it.
func TestOpenWhatSopsMade(t *testing.T) {
	keys := map[string]string{"pgp.yaml": "one.asc", "curve.yaml": "curve.asc", "ssh.yaml": "ssh.agekey"}
	files, err := filepath.Glob("testdata/fixtures/*.out.*")
	if err != nil || len(files) < 14 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, out := range files {
		name := strings.Replace(filepath.Base(out), ".out.", ".", 1)
		t.Run(name, func(t *testing.T) {
			key := keys[name]
			if key == "" {
				key = "one.agekey"
			}
			data := read(t, "fixtures/"+name)
			before := bytes.Clone(data)
			o := keyring(t, key).Open(name, data)
			if len(o.Findings) > 0 || !o.Encrypted {
				t.Fatalf("Open = %+v", o)
			}
			if !bytes.Equal(before, data) {
				t.Fatal("the file was changed in place")
			}
			have := timesAsText(documents(t, name, o.Plain))
			want := timesAsText(documents(t, name, read(t, "fixtures/"+strings.Replace(name, ".", ".out.", 1))))
			if !reflect.DeepEqual(have, want) {
				t.Errorf("have %v\nwant %v\n%s", have, want, o.Plain)
			}
			lines(t, data, o.Plain)

			// Without a key the shape is the same, and nothing is told.
			m := Mask(name, data)
			if len(m.Findings) > 0 || !m.Encrypted {
				t.Fatalf("Mask = %+v", m)
			}
			lines(t, data, m.Plain)
			if a, b := shape(documents(t, name, m.Plain)), shape(documents(t, name, o.Plain)); !reflect.DeepEqual(a, b) {
				t.Errorf("masked %v\nplain %v", a, b)
			}
			for _, v := range o.values {
				if len(v) > 5 && bytes.Contains(m.Plain, []byte(v)) {
					t.Errorf("the masked text has %q", v)
				}
			}
			if plain, findings, enc := (*Keyring)(nil).Decrypt(name, data); plain != nil || len(findings) != 1 || findings[0].Rule != RuleMissingKey || !enc {
				t.Errorf("without a key: %q %+v", plain, findings)
			}
		})
	}
}

// lines compares the number of lines, and where the words that were plain
// before stand.
func lines(t *testing.T, file, plain []byte) {
	t.Helper()
	a, b := strings.Split(string(file), "\n"), strings.Split(string(plain), "\n")
	if len(a) != len(b) {
		t.Fatalf("%d lines, and %d before", len(b), len(a))
	}
	for i := range a {
		if strings.Contains(a[i], "ENC[") {
			key, _, _ := strings.Cut(a[i], "ENC[")
			if !strings.Contains(a[i], "type:comment") && !strings.Contains(a[i], "mac:") && !strings.Contains(a[i], `"mac"`) && !strings.HasPrefix(b[i], strings.TrimRight(key, `"`)) {
				t.Errorf("line %d: %q became %q", i+1, a[i], b[i])
			}
		}
	}
}

// shape is a value without its texts and numbers.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = shape(v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = shape(v[i])
		}
		return out
	case int, float64:
		return "number"
	case nil:
		return nil
	}
	return reflect.TypeOf(v).Kind().String()
}

func TestOpenAge(t *testing.T) {
	k := keyring(t, "one.agekey")
	want := read(t, "in/secret.yaml")
	for _, name := range []string{"whole.yaml.age", "armored.yaml.age"} {
		plain, findings, encrypted := k.Decrypt(name, read(t, "fixtures/"+name))
		if !encrypted || len(findings) > 0 || !bytes.Equal(plain, want) {
			t.Errorf("%s: %q %+v %v", name, plain, findings, encrypted)
		}
		// Also under a name that does not say it.
		if plain, _, encrypted := k.Decrypt("a.yaml", read(t, "fixtures/"+name)); !encrypted || !bytes.Equal(plain, want) {
			t.Errorf("%s as a.yaml: %q", name, plain)
		}
	}
	if o := Mask("whole.yaml.age", read(t, "fixtures/whole.yaml.age")); !o.Opaque || o.Plain != nil {
		t.Errorf("Mask: %+v", o)
	}
	if got := PlainName("a/b.yaml.age"); got != "a/b.yaml" {
		t.Errorf("PlainName = %s", got)
	}
}

// A file that sops has encrypted as one value.
func TestOpenBinary(t *testing.T) {
	plain, findings, encrypted := keyring(t, "one.agekey").Decrypt("a.yaml", read(t, "fixtures/binary.json"))
	if !encrypted || len(findings) > 0 || !bytes.Equal(plain, read(t, "in/secret.yaml")) {
		t.Errorf("%q %+v %v", plain, findings, encrypted)
	}
	if o := Mask("a.yaml", read(t, "fixtures/binary.json")); !o.Opaque {
		t.Errorf("Mask: %+v", o)
	}
}

// What is not encrypted is handed back as it is, also what only speaks of it.
func TestOpenPlain(t *testing.T) {
	for name, text := range map[string]string{
		"plain":    "a: 1\n",
		"word":     "apiVersion: v1\nkind: ConfigMap\ndata:\n  note: we use sops here\n",
		"nested":   "kind: ConfigMap\ndata:\n  sops: yes\n",
		"quoted":   "kind: ConfigMap\ndata:\n  doc: |\n    a: ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]\n    sops: {}\n",
		"prefix":   "doc: ENC[AES256_GCM,data: is how it begins\n",
		"no yaml":  "sops: [\n",
		"json":     `{"a": "sops"}`,
		"empty":    "",
		"no json":  `{"sops": `,
		"too many": "sops: 1\n" + strings.Repeat("a,", maxTokens+1),
	} {
		plain, findings, encrypted := (*Keyring)(nil).Decrypt(name+".yaml", []byte(text))
		if encrypted || len(findings) > 0 || string(plain) != text {
			t.Errorf("%s: %q %+v %v", name, plain, findings, encrypted)
		}
	}
}
