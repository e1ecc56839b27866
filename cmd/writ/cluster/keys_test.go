package cluster

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/encryption"
	"github.com/writ-os/writ/schema"

	corev1 "k8s.io/api/core/v1"
)

// One of several servers without a key takes one: first it only reads by it, and
// then it writes, at once and after a restart; it never writes by a key that it was
// not told before, and never gives up the one that it writes by.
func TestOwnKeys(t *testing.T) {
	p := NewControlPlane(Config{DataDir: t.TempDir(), NodeName: "n", Log: slog.New(slog.DiscardHandler)})
	p.member = &member.State{Name: "n"}
	if err := p.chooseEncryption(time.Now()); err != nil {
		t.Fatal(err)
	}
	open := func() {
		t.Helper()
		var err error
		if p.encryption, err = encryption.Open(t.Context(), encryption.Config{File: p.cfg.API.EncryptionFile}); err != nil {
			t.Fatal(err)
		}
	}
	open()
	secrets := schema.ResourceFor[*corev1.Secret]()
	stored := func() string {
		t.Helper()
		b, err := encryption.Sealer{Transformer: p.encryption}.Seal(secrets, "/registry/secrets/default/s", []byte("plain"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	o := &ownKeys{p: p}
	one, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	two, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		set     member.Keys
		refused string
		writes  bool
	}{
		{set: member.Keys{Key: "c2hvcnQ="}, refused: "32 bytes"},
		{set: member.Keys{Key: one, Writes: true}, refused: "was not told before"},
		{set: member.Keys{Key: two}},
		{set: member.Keys{Key: one}}, // nobody writes by it yet
		{set: member.Keys{Key: two, Writes: true}, refused: "was not told before"},
		{set: member.Keys{Key: one, Writes: true}, writes: true},
		{set: member.Keys{Key: one}, writes: true}, // a word that comes late
		{set: member.Keys{Key: two}, refused: "by another key already", writes: true},
	} {
		err := o.SetKeys(t.Context(), step.set)
		if (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Errorf("%+v: %v", step, err)
		}
		for _, again := range []bool{false, true} {
			if again {
				open()
			}
			if sealed := strings.HasPrefix(stored(), "k8s:enc:secretbox:v1:own:"); sealed != step.writes {
				t.Errorf("%+v, started again %v: writes %q", step, again, stored())
			}
		}
	}
	if have, err := o.Keys(t.Context()); err != nil || have != (member.Keys{Key: one, Writes: true}) {
		t.Errorf("%+v %v", have, err)
	}
	// What an operator has made of the file stays theirs.
	text, err := os.ReadFile(p.cfg.API.EncryptionFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.cfg.API.EncryptionFile, []byte(strings.Replace(string(text), "[secrets]", "[secrets, configmaps]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if have, err := o.Keys(t.Context()); err != nil || have.Foreign == "" {
		t.Errorf("%+v %v", have, err)
	}
	if err := o.SetKeys(t.Context(), member.Keys{Key: one}); err == nil {
		t.Error("an operator's file was written over")
	}
}
