package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"go.yaml.in/yaml/v3"
)

// sealer writes files as SOPS does, for random content that no fixture has.
type sealer struct {
	t    testing.TB
	key  []byte
	gcm  cipher.AEAD
	sum  []byte
	rand *rand.Rand
}

func newSealer(t testing.TB, rnd *rand.Rand) *sealer {
	s := &sealer{t: t, key: make([]byte, keySize), rand: rnd}
	for i := range s.key {
		s.key[i] = byte(rnd.Uint32())
	}
	b, err := aes.NewCipher(s.key)
	if err != nil {
		t.Fatal(err)
	}
	if s.gcm, err = cipher.NewGCMWithNonceSize(b, 32); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sealer) seal(plain []byte, typ, aad string) string {
	iv := make([]byte, 32)
	for i := range iv {
		iv[i] = byte(s.rand.Uint32())
	}
	out := s.gcm.Seal(nil, iv, plain, []byte(aad))
	e := base64.StdEncoding.EncodeToString
	return "ENC[AES256_GCM,data:" + e(out[:len(out)-16]) + ",iv:" + e(iv) + ",tag:" + e(out[len(out)-16:]) + ",type:" + typ + "]"
}

// walk encrypts all values of a tree of YAML nodes.
func (s *sealer) walk(n *yaml.Node, path []string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			s.walk(n.Content[i+1], append(path[:len(path):len(path)], n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			s.walk(c, path)
		}
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			s.t.Fatal(err)
		}
		aad := strings.Join(path, ":") + ":"
		switch v := v.(type) {
		case nil:
			return
		case string:
			s.sum = append(s.sum, v...)
			if v == "" {
				return
			}
			n.Value = s.seal([]byte(v), "str", aad)
		case int:
			text := fmt.Sprint(v)
			s.sum = append(s.sum, text...)
			n.Value = s.seal([]byte(text), "int", aad)
		case bool:
			s.sum = append(s.sum, macBool(v)...)
			n.Value = s.seal(macBool(v), "bool", aad)
		}
		n.Tag, n.Style = "!!str", []yaml.Style{0, yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle, yaml.FoldedStyle}[s.rand.IntN(5)]
	}
}

// nodeOf makes nodes of a value; those that yaml makes itself go through a text
// that it cannot always read back.
func nodeOf(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: k}, nodeOf(v[k]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, e := range v {
			n.Content = append(n.Content, nodeOf(e))
		}
		return n
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
	case int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(v)}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}

// file encrypts a document for a recipient.
func (s *sealer) file(doc any, to age.Recipient) []byte {
	n := nodeOf(doc)
	s.walk(n, nil)
	body, err := yaml.Marshal(n)
	if err != nil {
		s.t.Fatal(err)
	}
	var wrapped bytes.Buffer
	a := armor.NewWriter(&wrapped)
	w, err := age.Encrypt(a, to)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := w.Write(s.key); err != nil {
		s.t.Fatal(err)
	}
	w.Close()
	a.Close()
	const when = "2026-01-01T00:00:00Z"
	meta, err := yaml.Marshal(map[string]any{"sops": map[string]any{"age": []any{map[string]any{"recipient": "test", "enc": wrapped.String()}},
		"lastmodified": when, "mac": s.seal(fmt.Appendf(nil, "%X", sha512.Sum512(s.sum)), "str", when), "version": "3"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return append(body, meta...)
}

var letters = []rune("ab \n\t\r\"'\\:#-{}[]|>&*!%@`,?é🚀\u0085\u2028\ufeff\x00\x7f0123ENC")

func randomText(r *rand.Rand) string {
	out := make([]rune, r.IntN(12))
	for i := range out {
		out[i] = letters[r.IntN(len(letters))]
	}
	return string(out)
}

func randomValue(r *rand.Rand, depth int) any {
	switch k := r.IntN(10); {
	case k < 5 || depth > 3:
		return randomText(r)
	case k == 5:
		return r.IntN(1000) - 500
	case k == 6:
		return r.IntN(2) == 0
	case k == 7:
		return nil
	case k == 8:
		out := []any{}
		for range r.IntN(4) {
			out = append(out, randomValue(r, depth+1))
		}
		return out
	}
	out := map[string]any{}
	for range r.IntN(4) {
		out[fmt.Sprintf("k%d", r.IntN(20))] = randomValue(r, depth+1)
	}
	return out
}

// Whatever is encrypted is read back, whatever it says and however its
// encrypted form is written; and no other byte of the file says less.
func TestOpenAnything(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(map[string][]byte{"a.agekey": []byte(id.String())})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		doc := map[string]any{"kind": "Secret", "more": randomValue(r, 0), "text": randomText(r)}
		data := newSealer(t, r).file(doc, id.Recipient())
		o := k.Open("a.yaml", data)
		if o.Plain == nil {
			t.Fatalf("seed %d: %+v\n%s", seed, o.Findings, data)
		}
		if bytes.Count(o.Plain, []byte("\n")) != bytes.Count(data, []byte("\n")) {
			t.Fatalf("seed %d: lines moved\n%s\n%s", seed, data, o.Plain)
		}
		var have map[string]any
		if err := yaml.Unmarshal(o.Plain, &have); err != nil || !reflect.DeepEqual(have, doc) {
			t.Fatalf("seed %d: %v\nhave %#v\nwant %#v\n%s\n%s", seed, err, have, doc, data, o.Plain)
		}
		// One bit of the body anywhere is noticed.
		at := r.IntN(bytes.Index(data, []byte("\nsops:")))
		bad := bytes.Clone(data)
		bad[at] ^= 1 << r.IntN(3)
		if p := k.Open("a.yaml", bad); p.Encrypted && p.Plain != nil {
			var have map[string]any
			if yaml.Unmarshal(p.Plain, &have) == nil && !reflect.DeepEqual(have, doc) && !sameButKeys(have, doc) {
				t.Fatalf("seed %d: a changed byte at %d is not noticed\n%s", seed, at, p.Plain)
			}
		}
	}
}

// sameButKeys says whether two documents differ in names alone, where no value
// is: SOPS does not authenticate the name of what is empty.
func sameButKeys(a, b map[string]any) bool {
	return reflect.DeepEqual(scalars(a), scalars(b))
}

func scalars(v any) map[string]int {
	out := map[string]int{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case nil:
		case string:
			if v != "" {
				out[v]++
			}
		default:
			out[fmt.Sprint(v)]++
		}
	}
	walk(v)
	return out
}

func BenchmarkOpen(b *testing.B) {
	k := keyring(b, "one.agekey")
	data := read(b, "fixtures/secret.yaml")
	for b.Loop() {
		if k.Open("a.yaml", data).Plain == nil {
			b.Fatal("not opened")
		}
	}
}

func BenchmarkOpenPlain(b *testing.B) {
	k := keyring(b, "one.agekey")
	data := bytes.Repeat([]byte("apiVersion: v1\nkind: ConfigMap\n"), 100)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if k.Open("a.yaml", data).Encrypted {
			b.Fatal("encrypted")
		}
	}
}

// jsonOf writes a value as JSON.
func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
