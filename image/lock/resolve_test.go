package lock

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-cmp/cmp"
)

var wanted = []Wanted{{Name: "kmod", At: "l:1"}, {Name: "meta", Prefix: "image-", At: "l:2"}}

func resolution(m *mirror) Resolution {
	return Resolution{Keys: openpgp.EntityList{m.key}, Now: func() time.Time { return today }}
}

func TestResolve(t *testing.T) {
	m := newMirror(t)
	m.debian(t)
	r := resolution(m)
	r.Mirrors, r.HTTP = m.serve(t)
	l, err := Resolve(t.Context(), r, wanted)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range l.Packages {
		got = append(got, p.String()+" "+p.Path)
	}
	want := []string{"image-1 1 debian/pool/image-1_1.deb", "kmod 34.2-1+deb13u1 debian-security/pool/kmod_34.2-1+deb13u1.deb"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	date := time.Date(2026, 11, 21, 2, 10, 46, 0, time.UTC)
	if d := cmp.Diff([]Suite{{"trixie", "debian", date}, {"trixie-security", "debian-security", date}, {"trixie-updates", "debian", date}}, l.Suites); d != "" {
		t.Error(d)
	}
	var b bytes.Buffer
	if err := l.Write(&b); err != nil {
		t.Fatal(err)
	}
	if again, err := Parse("l", &b); err != nil || !cmp.Equal(l, again) {
		t.Errorf("the lock cannot be read back: %v", err)
	}
	r.Before = l
	if _, err := Resolve(t.Context(), r, wanted); err != nil {
		t.Errorf("the same again: %v", err)
	}
}

func TestResolveRefuses(t *testing.T) {
	const security = "/sec/dists/trixie-security/InRelease"
	for name, c := range map[string]struct {
		do   func(t *testing.T, m *mirror, r *Resolution)
		want string
	}{
		"expired": {func(_ *testing.T, _ *mirror, r *Resolution) {
			r.Now = func() time.Time { return today.AddDate(0, 0, 7) }
		},
			"it has expired: it was valid until 2026-11-28T02:10:46Z, and now it is 2026-11-29T12:00:00Z"},
		"another key": {func(t *testing.T, m *mirror, _ *Resolution) { m.files[security] = sign(t, newKey(t), "Codename: x\n") },
			"signed by none of the keys"},
		"changed text": {func(_ *testing.T, m *mirror, _ *Resolution) {
			m.files[security] = bytes.Replace(m.files[security], []byte("Origin: Debian"), []byte("Origin: Nobody"), 1)
		}, "its signature does not hold"},
		"text before the signature counts for nothing": {func(_ *testing.T, m *mirror, r *Resolution) {
			m.files[security] = append([]byte("Valid-Until: Sat, 28 Nov 2099 02:10:46 UTC\n"), m.files[security]...)
			r.Now = func() time.Time { return today.AddDate(0, 0, 7) }
		}, "expired"},
		"text after the signature": {func(_ *testing.T, m *mirror, _ *Resolution) {
			m.files[security] = append(m.files[security], "\nCodename: x\n"...)
		}, "something follows its signature"},
		"a page of a proxy": {func(_ *testing.T, m *mirror, _ *Resolution) { m.files[security] = []byte("<html>") }, "it is no clear-signed text"},
		"another suite": {func(t *testing.T, m *mirror, _ *Resolution) {
			m.suite(t, "/sec", "trixie-security", "", true, "trixie-security", "sid")
		},
			`it is that of "sid", not of trixie-security`},
		"an older date than the lock": {func(_ *testing.T, _ *mirror, r *Resolution) {
			r.Before = &Lock{Suites: []Suite{{Name: "trixie-security", Date: today}}}
		}, "older than that of the lock"},
		"no date": {func(t *testing.T, m *mirror, _ *Resolution) {
			m.suite(t, "/sec", "trixie-security", "", true, "Date: ", "Dated: ")
		}, "its Date"},
		"no index": {func(t *testing.T, m *mirror, _ *Resolution) {
			m.suite(t, "/sec", "trixie-security", "", true, indexPath, "x")
		}, "names no main/binary-amd64/Packages.xz"},
		"a large index": {func(t *testing.T, m *mirror, _ *Resolution) {
			m.suite(t, "/sec", "trixie-security", "", true, " main/", "00000000 main/")
		}, "at most"},
		"a broken entry": {func(t *testing.T, m *mirror, _ *Resolution) {
			m.suite(t, "/sec", "trixie-security", "Package: kmod\nVersion: 1\nArchitecture: amd64\nFilename: ../x.deb\nSize: 1\nSHA256: "+sum+"\n", true)
		}, "no path of a .deb"},
		"a missing package": {func(t *testing.T, m *mirror, _ *Resolution) { m.suite(t, "/debian", "trixie", "", true) }, "l:2: no suite has a package meta"},
		"no mirror":         {func(_ *testing.T, _ *mirror, r *Resolution) { delete(r.Mirrors, "debian-security") }, "no mirror of the archive debian-security"},
		"a suite that is gone": {func(_ *testing.T, m *mirror, _ *Resolution) { delete(m.files, security) },
			"read suite trixie-security: get "},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.debian(t)
			r := resolution(m)
			r.Mirrors, r.HTTP = m.serve(t)
			c.do(t, m, &r)
			if _, err := Resolve(t.Context(), r, wanted); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// The index is believed by the digest in InRelease, whatever its address says.
func TestResolveRefusesAnotherIndex(t *testing.T) {
	m := newMirror(t)
	m.debian(t)
	for at := range m.files {
		if strings.HasPrefix(at, "/sec/dists/") && strings.Contains(at, "by-hash") {
			m.files[at] = slices.Concat(m.files[at][:20], []byte("x"), m.files[at][21:])
		}
	}
	r := resolution(m)
	r.Mirrors, r.HTTP = m.serve(t)
	if _, err := Resolve(t.Context(), r, wanted); err == nil || !strings.Contains(err.Error(), "is not what InRelease says") {
		t.Errorf("error %v", err)
	}
}

// The keys are what Debian announced for trixie (ftp-master.debian.org/keys.html).
func TestKeys(t *testing.T) {
	keys, err := Keys()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range keys {
		got = append(got, fmt.Sprintf("%X", k.PrimaryKey.Fingerprint))
		if k.PrivateKey != nil {
			t.Error("a private key")
		}
	}
	slices.Sort(got)
	want := []string{"04B54C3CDCA79751B16BC6B5225629DF75B188BD", "41587F7DB8C774BCCF131416762F67A0B2C39DE4", "5E04A1E3223A19A20706E20F9904613D4CCE68C6"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzReadRelease(f *testing.F) {
	keys, err := Keys()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nDate: x\n-----BEGIN PGP SIGNATURE-----\n\nwpMEARYKADsWIQ==\n-----END PGP SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := readRelease(b, keys, today); err == nil {
			t.Error(errors.New("nobody but Debian can sign"))
		}
	})
}
