package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/crypto/ssh"
)

// signer is a key that is always the same.
func signer(t testing.TB, seed byte) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keys(t testing.TB, signers ...ssh.Signer) Keys {
	t.Helper()
	var b strings.Builder
	for i, s := range signers {
		fmt.Fprintf(&b, "release%d@example.org %s", i, ssh.MarshalAuthorizedKey(s.PublicKey()))
	}
	k, err := ParseKeys("keys", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func section(s string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(s), 0, int64(len(s)))
}

func packed(s string) *io.SectionReader {
	var b bytes.Buffer
	if err := Pack(&b, strings.NewReader(s), Quick); err != nil {
		panic(err)
	}
	return section(b.String())
}

func parts() Parts {
	return Parts{
		Version: "v5", Arch: "amd64", RootHash: strings.Repeat("ab", 32), Created: time.Unix(1700000000, 0),
		Root: packed(strings.Repeat("root", 1000)), RootSize: 4000, Verity: section(strings.Repeat("v", 512)), UKI: section("kernel"),
	}
}

func written(t testing.TB, p Parts, s ssh.Signer) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, p, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// all reads a whole bundle.
func all(r io.Reader, t Trust) (map[string]string, error) {
	b, err := Read(r, t)
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	err = b.Each(func(f File, r io.Reader) error {
		p, err := io.ReadAll(r)
		got[f.Name] = string(p)
		return err
	})
	return got, err
}

func TestRoundTrip(t *testing.T) {
	key := signer(t, 1)
	for _, s := range []ssh.Signer{nil, key} {
		b := written(t, parts(), s)
		if !bytes.Equal(b, written(t, parts(), s)) {
			t.Error("the same parts make two bundles")
		}
		trust := Trust{Digest: digest(b), Size: int64(len(b)), Version: "v5", Arch: "amd64"}
		if s != nil {
			trust.Keys = keys(t, signer(t, 2), key)
		}
		for _, r := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
			got, err := all(r, trust)
			if err != nil || got[Root] != strings.Repeat("root", 1000) || got[Verity] != strings.Repeat("v", 512) || got[UKI] != "kernel" {
				t.Errorf("signed %v: %v", s != nil, err)
			}
		}
		r, err := Read(bytes.NewReader(b), trust)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: "release1@example.org"}[s != nil]; r.Signer() != want {
			t.Errorf("signer %q, want %q", r.Signer(), want)
		}
		if m := r.Manifest(); m.Size() != 4000+512+6 || m.Version != "v5" {
			t.Errorf("manifest: %+v", m)
		}
		// What a caller leaves unread is checked all the same.
		if err := r.Each(func(File, io.Reader) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

func TestRefused(t *testing.T) {
	key := signer(t, 1)
	good := written(t, parts(), key)
	bare := written(t, parts(), nil)
	signed := Trust{Keys: keys(t, key)}
	at := func(what string) int { return bytes.Index(good, []byte(what)) }
	change := func(at int, with byte) []byte {
		b := bytes.Clone(good)
		b[at] ^= with
		return b
	}
	older := parts()
	older.Version = "v4"
	for _, tt := range []struct {
		name   string
		bundle []byte
		trust  Trust
		want   string
	}{
		{"no trust", good, Trust{}, "neither a digest nor a key is trusted"},
		{"bad digest", good, Trust{Digest: "sha256:AB"}, "must be sha256: and 64 hexadecimal digits"},
		{"unsigned", bare, signed, "it is not signed"},
		{"unsigned, true digest", bare, Trust{Keys: signed.Keys, Digest: digest(bare)}, "it is not signed"},
		{"other key", written(t, parts(), signer(t, 3)), signed, "which is none of the keys that are trusted"},
		{"other digest", bare, Trust{Digest: digest(good)}, "its digest is sha256:"},
		{"signed, other digest", good, Trust{Keys: signed.Keys, Digest: digest(bare)}, "its digest is sha256:"},
		{"manifest", change(at(`"v5"`)+1, 1), signed, "does not belong to its manifest"},
		{"root", change(at("\x28\xb5\x2f\xfd")+8, 1), signed, "its root.erofs.zst is not what its manifest says"},
		{"padding", change(at("kernel")+6, 1), signed, "something is hidden after writ.efi"},
		{"trailer", change(len(good)-1, 1), signed, "something is hidden after the end"},
		{"header", change(at("root.erofs.zst\x00")+100, 1), signed, "the header of root.erofs.zst is not in the form of a bundle"},
		{"header of the manifest", change(100, 1), signed, "it is no bundle"},
		{"nothing", nil, signed, "cut off: it ends after 0 bytes"},
		{"more", append(bytes.Clone(good), 0), signed, "something follows its end"},
		{"declared size", good, Trust{Keys: signed.Keys, Size: 9}, "and 9 are declared"},
		{"declared version", written(t, older, key), Trust{Keys: signed.Keys, Version: "v5"}, "it has version v4, and v5 is declared"},
		{"declared machine", good, Trust{Keys: signed.Keys, Arch: "arm64"}, "it is for amd64, and this machine is arm64"},
		{"another tar", tarOf(t, map[string]string{"x": "y"}), signed, "it does not begin with manifest.json"},
		{"large manifest", tarOf(t, map[string]string{manifestName: strings.Repeat(" ", maxManifest+1)}), signed, "its manifest.json has 65537 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := all(bytes.NewReader(tt.bundle), tt.trust)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if trusted := tt.trust.Keys != nil || len(tt.trust.Digest) == 71; Refused(err) != trusted {
				t.Errorf("Refused = %v: %v", Refused(err), err)
			}
		})
	}
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o444, Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(text))
	}
	w.Close()
	return b.Bytes()
}

// Wherever it is cut, and whichever bit has turned, it is refused.
func TestDamage(t *testing.T) {
	p := parts()
	p.Root, p.RootSize = packed("root"), 4
	good := written(t, p, signer(t, 1))
	trust := Trust{Keys: keys(t, signer(t, 1))}
	// A prime step: every block is met at another place.
	const step = 7
	for i := 0; i < len(good); i += step {
		if _, err := all(bytes.NewReader(good[:i]), trust); !Refused(err) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	begin := bytes.Index(good, []byte("-----BEGIN"))
	end := bytes.LastIndex(good, []byte("SIGNATURE-----\n")) + 15
	for i := 0; i < len(good); i += step {
		if i >= begin && i < end {
			continue // its armor has several forms of one signature
		}
		b := bytes.Clone(good)
		b[i] ^= 1 << (i % 8)
		if _, err := all(bytes.NewReader(b), trust); !Refused(err) {
			t.Fatalf("changed at %d: %v", i, err)
		}
	}
}

// What reading fails by is not the bundle's fault.
func TestReadErrors(t *testing.T) {
	good := written(t, parts(), signer(t, 1))
	broken := errors.New("broken")
	for _, n := range []int{0, 100, 600, 3000, 6000, len(good)} {
		r := io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken))
		if _, err := all(r, Trust{Keys: keys(t, signer(t, 1))}); !errors.Is(err, broken) || Refused(err) {
			t.Errorf("after %d: %v", n, err)
		}
	}
	r, err := Read(bytes.NewReader(good), Trust{Keys: keys(t, signer(t, 1))})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Each(func(File, io.Reader) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, change := range map[string]func(*Parts){
		"version":   func(p *Parts) { p.Version = "v5_1" },
		"long":      func(p *Parts) { p.Version = strings.Repeat("1", 30) },
		"arch":      func(p *Parts) { p.Arch = "x/y" },
		"root hash": func(p *Parts) { p.RootHash = strings.Repeat("AB", 32) },
		"empty":     func(p *Parts) { p.UKI = section("") },
		"time":      func(p *Parts) { p.Created = time.Unix(-1, 0) },
	} {
		p := parts()
		change(&p)
		if _, err := Write(io.Discard, p, nil); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// The tools that people have read a bundle: tar, and ssh-keygen for its
// signature.
func TestTools(t *testing.T) {
	for _, tool := range []string{"tar", "ssh-keygen"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool, "is not installed")
		}
	}
	dir, key := t.TempDir(), signer(t, 1)
	file := filepath.Join(dir, "v5.bundle")
	if err := os.WriteFile(file, written(t, parts(), key), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-C", dir, "-xf", file).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	allowed := filepath.Join(dir, "allowed")
	line := fmt.Sprintf("# who may\nrelease@example.org namespaces=\"%s\" %s", Namespace, ssh.MarshalAuthorizedKey(key.PublicKey()))
	if err := os.WriteFile(allowed, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, err := ParseKeys(allowed, []byte(line)); err != nil || len(k) != 1 || k[0].Principal != "release@example.org" {
		t.Errorf("ParseKeys: %+v, %v", k, err)
	}
	manifest, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	cmd := exec.Command("ssh-keygen", "-Y", "verify", "-n", Namespace, "-I", "release@example.org", "-f", allowed, "-s", filepath.Join(dir, signatureName))
	cmd.Stdin = manifest
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
}

func TestParseKeys(t *testing.T) {
	pub := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer(t, 1).PublicKey())))
	const ecdsa = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="
	for _, tt := range []struct{ in, want string }{
		{"a@b " + pub, "a@b"},
		{"\"a b\"  " + pub + " comment", "a b"},
		{"a\tnamespaces=\"writ-image\" " + pub, "a"},
		{"a namespaces=\"git,writ-*\" " + pub, "a"},
		{"# text\n\na " + pub + "\nb namespaces=\"git\" " + pub + "\r\n", "a"},
		{"a namespaces=\"*,!writ-image\" " + pub, "keys: has no key"},
		{"", "keys: has no key for writ-image"},
		{"a", "keys:1: must be principals and an SSH public key"},
		{"\"a " + pub, "keys:1: the principals have no closing quote"},
		{"#\n" + pub, "keys:2: must be principals"},
		{"a cert-authority " + pub, "keys:1: the option cert-authority is not supported"},
		{"a valid-before=\"20300101\" " + pub, "keys:1: the option valid-before is not supported"},
		{"a " + ecdsa, "keys:1: the key is of the type ecdsa-sha2-nistp256"},
		{strings.Repeat("#", maxKeys+1), "keys: has more than"},
	} {
		k, err := ParseKeys("keys", []byte(tt.in))
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), tt.want):
			t.Errorf("%.40q: %v, want %q", tt.in, err, tt.want)
		case err == nil && (len(k) != 1 || k[0].Principal != tt.want):
			t.Errorf("%.40q: %+v, want %q", tt.in, k, tt.want)
		}
	}
}

// FuzzRead: whatever comes, a reader neither panics nor believes: what passes is
// the bundle that was signed.
func FuzzRead(f *testing.F) {
	key := signer(f, 1)
	p := parts()
	p.Root, p.RootSize = packed("root"), 4
	good := written(f, p, key)
	f.Add(good)
	f.Add(written(f, p, nil))
	f.Add(good[:700])
	trust := Trust{Keys: keys(f, key)}
	want, err := all(bytes.NewReader(good), trust)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := all(bytes.NewReader(b), trust)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("believed %v", got)
		}
		// With no signature in the way the manifest is reached.
		if _, err := all(bytes.NewReader(b), Trust{Digest: digest(b)}); err != nil && !Refused(err) {
			t.Error(err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	p := parts()
	m, err := p.manifest([]*io.SectionReader{p.Root, p.Verity, p.UKI})
	if err != nil {
		f.Fatal(err)
	}
	b, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			return
		}
		if again, err := m.encode(); err != nil {
			t.Error(err)
		} else if _, err := parseManifest(again); err != nil {
			t.Error(err)
		}
	})
}
