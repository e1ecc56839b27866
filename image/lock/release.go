package lock

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/writ-os/writ/image/deb"
)

// Debian's archive keys of trixie, out of the package debian-archive-keyring.
//
//go:embed keys/*.asc
var keyFiles embed.FS

// Keys returns the keys that sign Debian 13.
func Keys() (openpgp.EntityList, error) {
	files, err := keyFiles.ReadDir("keys")
	if err != nil {
		return nil, err
	}
	var all openpgp.EntityList
	for _, f := range files {
		b, err := keyFiles.ReadFile(path.Join("keys", f.Name()))
		if err != nil {
			return nil, err
		}
		list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("read key %s: %w", f.Name(), err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// release is what a verified InRelease says.
type release struct {
	codename string
	date     time.Time
	byHash   bool
	files    map[string]file // by path below the suite
}

type file struct {
	sha256 string
	size   int64
}

// readRelease verifies an InRelease and reads it. Only what is inside the
// signature is read: what stands around it is nobody's word.
func readRelease(text []byte, keys openpgp.KeyRing, now time.Time) (*release, error) {
	signed, err := verify(text, keys, now)
	if err != nil {
		return nil, err
	}
	var p deb.Paragraph
	for one, err := range deb.Paragraphs(bytes.NewReader(signed)) {
		if err != nil {
			return nil, err
		}
		if p != nil {
			return nil, errors.New("it has more than one paragraph")
		}
		p = one
	}
	r := &release{codename: p["Codename"], byHash: p["Acquire-By-Hash"] == "yes", files: map[string]file{}}
	if r.date, err = parseDate(p["Date"]); err != nil {
		return nil, fmt.Errorf("its Date: %w", err)
	}
	// A release of Debian itself has no end; its updates and security have,
	// so that a mirror cannot hold fixes back by standing still.
	if until := p["Valid-Until"]; until != "" {
		end, err := parseDate(until)
		if err != nil {
			return nil, fmt.Errorf("its Valid-Until: %w", err)
		}
		if now.After(end) {
			return nil, fmt.Errorf("it has expired: it was valid until %s, and now it is %s; the mirror is no longer updated (or the clock is wrong): use another one",
				end.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	return r, r.readFiles(p["SHA256"])
}

func (r *release) readFiles(field string) error {
	for line := range strings.Lines(field) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 3 || !digestRule().MatchString(f[0]) {
			return fmt.Errorf("its SHA256 has the line %.80q", line)
		}
		size, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || size < 0 {
			return fmt.Errorf("its SHA256 has the line %.80q", line)
		}
		r.files[f[2]] = file{sha256: f[0], size: size}
	}
	return nil
}

// parseDate reads the dates of Release files, which end with UTC.
func parseDate(s string) (time.Time, error) {
	t, err := time.Parse("Mon, _2 Jan 2006 15:04:05 MST", s)
	if err != nil || t.Location() != time.UTC {
		return time.Time{}, fmt.Errorf("%.60q is no date in UTC", s)
	}
	return t, nil
}

// verify returns what a clear-signed text says when one of the keys signed it.
func verify(text []byte, keys openpgp.KeyRing, now time.Time) (signed []byte, err error) {
	defer func() {
		if recover() != nil { // packets are input, and input must not end the process
			signed, err = nil, errors.New("its signature is malformed")
		}
	}()
	block, rest := clearsign.Decode(text)
	if block == nil {
		return nil, errors.New("it is no clear-signed text; a proxy may have answered in place of the mirror")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("something follows its signature")
	}
	_, err = block.VerifySignature(keys, &packet.Config{Time: func() time.Time { return now }})
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return nil, errors.New("it is signed by none of the keys in image/lock/keys")
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return nil, errors.New("the key that signed it has expired: renew image/lock/keys from the package debian-archive-keyring")
	case err != nil:
		return nil, fmt.Errorf("its signature does not hold: %w", err)
	}
	return block.Plaintext, nil
}
