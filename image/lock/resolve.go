package lock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/writ-os/writ/image/deb"
)

// Mirrors are the addresses of archives by name.
type Mirrors map[string]string

// Debian are the public mirrors.
func Debian() Mirrors {
	return Mirrors{"debian": "http://deb.debian.org/debian", "debian-security": "http://security.debian.org/debian-security"}
}

// Trixie are the suites of Debian 13, sorted.
func Trixie() []Suite {
	return []Suite{
		{Name: "trixie", Archive: "debian"},
		{Name: "trixie-security", Archive: "debian-security"},
		{Name: "trixie-updates", Archive: "debian"},
	}
}

const (
	indexPath   = "main/binary-amd64/Packages.xz"
	maxRelease  = 4 << 20
	maxIndex    = 64 << 20  // Packages.xz has 10 MB
	maxUnpacked = 512 << 20 // and 57 MB decompressed
)

// Resolution is what Resolve needs from outside. The zero value asks the
// public mirrors for Debian 13.
type Resolution struct {
	Mirrors Mirrors            // default Debian()
	Suites  []Suite            // default Trixie(); dates are ignored
	Keys    openpgp.EntityList // default Keys()
	// Before is the lock so far. A suite that is older than it says is
	// refused: an archive does not go back, a mirror that lies does.
	Before *Lock
	Now    func() time.Time // default time.Now
	HTTP   *http.Client     // default one with timeouts
}

func (r Resolution) withDefaults() (Resolution, error) {
	var err error
	if r.Mirrors == nil {
		r.Mirrors = Debian()
	}
	if r.Suites == nil {
		r.Suites = Trixie()
	}
	if r.Keys == nil {
		r.Keys, err = Keys()
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.HTTP == nil {
		r.HTTP = client()
	}
	return r, err
}

// Resolve asks the mirrors and pins the newest version of each wanted package.
// It follows no dependencies: the list says all that is wanted.
func Resolve(ctx context.Context, r Resolution, wanted []Wanted) (*Lock, error) {
	r, err := r.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Lock{}
	var offers []offer
	for _, s := range r.Suites {
		got, date, err := r.suite(ctx, s, wanted)
		if err != nil {
			return nil, fmt.Errorf("read suite %s: %w", s.Name, err)
		}
		s.Date = date
		l.Suites, offers = append(l.Suites, s), append(offers, got...)
	}
	slices.SortFunc(l.Suites, func(a, b Suite) int { return strings.Compare(a.Name, b.Name) })
	if l.Packages, err = pick(wanted, offers); err != nil {
		return nil, err
	}
	return l, nil
}

// suite reads what one suite offers of the wanted packages.
func (r Resolution) suite(ctx context.Context, s Suite, wanted []Wanted) ([]offer, time.Time, error) {
	base, ok := r.Mirrors[s.Archive]
	if !ok {
		return nil, time.Time{}, fmt.Errorf("there is no mirror of the archive %s", s.Archive)
	}
	base = strings.TrimRight(base, "/") + "/dists/" + s.Name + "/"
	text, err := get(ctx, r.HTTP, base+"InRelease", maxRelease)
	if err != nil {
		return nil, time.Time{}, err
	}
	rel, err := readRelease(text, r.Keys, r.Now())
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%sInRelease: %w", base, err)
	}
	if err := r.accept(s, rel); err != nil {
		return nil, time.Time{}, fmt.Errorf("%sInRelease: %w", base, err)
	}
	offers, err := r.index(ctx, base, s.Archive, rel, wanted)
	return offers, rel.date, err
}

// accept says whether a signed release is the one that was asked for.
func (r Resolution) accept(s Suite, rel *release) error {
	if rel.codename != s.Name {
		return fmt.Errorf("it is that of %.40q, not of %s", rel.codename, s.Name)
	}
	if r.Before == nil {
		return nil
	}
	for _, b := range r.Before.Suites {
		if b.Name == s.Name && rel.date.Before(b.Date) {
			return fmt.Errorf("it is of %s, older than that of the lock (%s): the mirror is behind; use another one",
				rel.date.Format(time.RFC3339), b.Date.Format(time.RFC3339))
		}
	}
	return nil
}

func (r Resolution) index(ctx context.Context, base, archive string, rel *release, wanted []Wanted) ([]offer, error) {
	f, ok := rel.files[indexPath]
	if !ok {
		return nil, fmt.Errorf("%sInRelease names no %s", base, indexPath)
	}
	if f.size > maxIndex {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", indexPath, f.size, maxIndex)
	}
	url := base + indexPath
	if rel.byHash { // the name that does not change while the archive is updated
		url = base + path.Dir(indexPath) + "/by-hash/SHA256/" + f.sha256
	}
	packed, err := get(ctx, r.HTTP, url, f.size)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(packed); int64(len(packed)) != f.size || hex.EncodeToString(sum[:]) != f.sha256 {
		return nil, fmt.Errorf("%s is not what InRelease says: the mirror is being updated, or lies; try again later", url)
	}
	z, err := deb.Decompress(indexPath, bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	limited := &io.LimitedReader{R: z, N: maxUnpacked}
	var offers []offer
	for p, err := range deb.Paragraphs(limited) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", url, err)
		}
		if !relevant(wanted, p["Package"]) {
			continue
		}
		o, err := readOffer(archive, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", url, err)
		}
		offers = append(offers, o)
	}
	if limited.N <= 0 {
		return nil, errors.New(url + " is too large")
	}
	return offers, nil
}
