package trust

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

const unsignedCommit = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.org> 1772366400 +0000\ncommitter A <a@example.org> 1772366400 +0000\n\nmessage\n"

// armored is a signature as ssh-keygen writes it.
func armored(pub []byte, namespace, hash string, signature []byte) string {
	body := append([]byte(sshMagic), ssh.Marshal(sshSigned{Version: 1, PublicKey: pub, Namespace: namespace, Hash: hash, Signature: signature})...)
	return string(pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: body}))
}

func signedMessage(t *testing.T, hash string) []byte {
	t.Helper()
	m, err := (&sshSigned{Namespace: sshNamespace, Hash: hash}).message([]byte(unsignedCommit))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func stateOf(t *testing.T, p *Policy, sig string) Signature {
	t.Helper()
	raw := withSignature([]byte(unsignedCommit), sig)
	s, err := p.Verify(objectName(40, raw), raw, start.Add(later))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A security key signs with what its owner did: touched it, or not.
func TestVerifySecurityKey(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pub := ssh.Marshal(struct{ Type, Key, Application string }{ssh.KeyAlgoSKED25519, string(public), "ssh:"})
	key, err := ssh.ParsePublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	p := mustParse(t, onlyKey("ssh", string(ssh.MarshalAuthorizedKey(key))))
	sign := func(flags byte) string {
		app, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(signedMessage(t, "sha512"))
		blob := append(append(app[:], flags, 0, 0, 0, 7), message[:]...)
		return armored(pub, sshNamespace, "sha512", ssh.Marshal(struct {
			Format, Blob string
			Flags        byte
			Counter      uint32
		}{ssh.KeyAlgoSKED25519, string(ed25519.Sign(private, blob)), flags, 7}))
	}
	if s := stateOf(t, p, sign(1)); s.State != Verified {
		t.Errorf("touched: %+v", s)
	}
	if s := stateOf(t, p, sign(0)); s.State != Bad {
		t.Errorf("not touched: %+v", s)
	}
}

// An RSA key counts with SHA-2 and not with SHA-1.
func TestVerifyRSAHash(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	p := mustParse(t, onlyKey("ssh", string(ssh.MarshalAuthorizedKey(signer.PublicKey()))))
	for algo, want := range map[string]State{ssh.KeyAlgoRSA: Bad, ssh.KeyAlgoRSASHA256: Verified, ssh.KeyAlgoRSASHA512: Verified} {
		sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signedMessage(t, "sha256"), algo)
		if err != nil {
			t.Fatal(err)
		}
		s := stateOf(t, p, armored(signer.PublicKey().Marshal(), sshNamespace, "sha256", ssh.Marshal(sig)))
		if s.State != want || want == Bad && !strings.Contains(s.Message, "not safe") {
			t.Errorf("%s: %+v", algo, s)
		}
		// The hash that the signature names is the one that was signed.
		if s := stateOf(t, p, armored(signer.PublicKey().Marshal(), sshNamespace, "sha512", ssh.Marshal(sig))); s.State != Bad {
			t.Errorf("%s with another hash: %+v", algo, s)
		}
		if s := stateOf(t, p, armored(signer.PublicKey().Marshal(), sshNamespace, "md5", ssh.Marshal(sig))); s.State != Bad {
			t.Errorf("%s with md5: %+v", algo, s)
		}
	}
}

func BenchmarkVerifySSH(b *testing.B) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		b.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(public)
	if err != nil {
		b.Fatal(err)
	}
	p, findings := Parse(File, []byte(onlyKey("ssh", string(ssh.MarshalAuthorizedKey(pub)))))
	if p == nil {
		b.Fatal(findings)
	}
	message, err := (&sshSigned{Namespace: sshNamespace, Hash: "sha512"}).message([]byte(unsignedCommit))
	if err != nil {
		b.Fatal(err)
	}
	sig, err := signer.Sign(rand.Reader, message)
	if err != nil {
		b.Fatal(err)
	}
	raw := withSignature([]byte(unsignedCommit), armored(pub.Marshal(), sshNamespace, "sha512", ssh.Marshal(sig)))
	sha, now := objectName(40, raw), time.Unix(1772366400, 0)
	for b.Loop() {
		if s, err := p.Verify(sha, raw, now); err != nil || s.State != Verified {
			b.Fatalf("%+v %v", s, err)
		}
	}
}
