package bundle

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// Format is the only one that is read. A reader refuses others: it cannot know
// what they promise. In format 1 the root file system came as it is.
const Format = 2

// The names of the files, in their order.
const (
	manifestName  = "manifest.json"
	signatureName = "manifest.json.sig"

	Root   = "root.erofs.zst"
	Verity = "root.verity"
	UKI    = "writ.efi"
)

// Bounds of what a reader takes, in bytes. They are far above what is made.
const (
	maxManifest  = 64 << 10
	maxSignature = 8 << 10
	maxRoot      = 4 << 30 // unpacked as well
	maxVerity    = 64 << 20
	maxUKI       = 256 << 20
)

var contents = []struct {
	name   string
	max    int64
	packed bool
}{{Root, maxRoot, true}, {Verity, maxVerity, false}, {UKI, maxUKI, false}}

// Manifest says what a bundle has.
type Manifest struct {
	Format   int       `json:"format"`
	Version  string    `json:"version"`
	Arch     string    `json:"arch"`     // as GOARCH: amd64
	RootHash string    `json:"rootHash"` // of dm-verity, 64 hexadecimal digits
	Created  time.Time `json:"created"`  // SOURCE_DATE_EPOCH, in UTC
	Files    []File    `json:"files"`    // Root, Verity, UKI
}

// File is one of the files after the manifest.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // in bytes, in the bundle
	SHA256 string `json:"sha256"` // 64 hexadecimal digits, of what is in the bundle
	// Unpacked is the size of what is in it, in bytes; 0 where it is not packed.
	Unpacked int64 `json:"unpacked,omitempty"`
}

// Content is how many bytes a reader of the file gets.
func (f File) Content() int64 { return cmp.Or(f.Unpacked, f.Size) }

// Size of all that is written into a slot, in bytes.
func (m *Manifest) Size() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Content()
	}
	return n
}

// MaxVersion is how many characters a version may have: it is part of a
// partition's name, of which "verity_" takes seven of 36.
const MaxVersion = 29

var (
	versionForm = regexp.MustCompile(fmt.Sprintf(`^[0-9A-Za-z][0-9A-Za-z.+~-]{0,%d}$`, MaxVersion-1))
	archForm    = regexp.MustCompile(`^[0-9a-z]{1,16}$`)
)

// RefusedError is what is wrong with a bundle, whoever reads it and however
// often.
type RefusedError struct{ why string }

func (e *RefusedError) Error() string { return e.why }

func refuse(format string, args ...any) error {
	return &RefusedError{"the bundle is refused: " + fmt.Sprintf(format, args...)}
}

// Refused says whether the bundle itself is at fault, so that reading it again
// is of no use.
func Refused(err error) bool {
	var r *RefusedError
	return errors.As(err, &r)
}

func (m *Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return append(b, '\n'), nil
}

func parseManifest(b []byte) (*Manifest, error) {
	// A later format may have other fields, and is refused for being later.
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, refuse("its manifest is not JSON")
	}
	if head.Format != Format {
		return nil, refuse("it has format %d, and this version reads %d", head.Format, Format)
	}
	m := &Manifest{}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, refuse("its manifest cannot be read: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse("its manifest has more than one value")
	}
	return m, m.check()
}

func (m *Manifest) check() error {
	switch {
	case m.Format != Format:
		return refuse("it has format %d, and this version reads %d", m.Format, Format)
	case !versionForm.MatchString(m.Version):
		return refuse("its version %.40q is none: it must be 1 to %d letters, digits and . + ~ -", m.Version, MaxVersion)
	case !archForm.MatchString(m.Arch):
		return refuse("its architecture %.40q is none", m.Arch)
	case !isSum(m.RootHash):
		return refuse("its root hash %.80q is not 64 hexadecimal digits", m.RootHash)
	case m.Created.Unix() < 0 || m.Created.Unix() >= 1<<33 || m.Created.Nanosecond() != 0:
		return refuse("its time %v cannot be written in a tar header", m.Created)
	case len(m.Files) != len(contents):
		return refuse("it has %d files, and a bundle has %d", len(m.Files), len(contents))
	}
	for i, want := range contents {
		switch f := m.Files[i]; {
		case f.Name != want.name:
			return refuse("its file %d is %.40q, and must be %s", i+1, f.Name, want.name)
		case f.Size <= 0 || f.Size > want.max:
			return refuse("its %s has %d bytes, and may have up to %d", f.Name, f.Size, want.max)
		case want.packed != (f.Unpacked > 0) || f.Unpacked < 0 || f.Unpacked > want.max:
			return refuse("its %s unpacks to %d bytes, and may have up to %d", f.Name, f.Unpacked, want.max)
		case !isSum(f.SHA256):
			return refuse("the sum %.80q of its %s is not 64 hexadecimal digits", f.SHA256, f.Name)
		}
	}
	return nil
}

// isSum says whether s is a SHA-256 sum as it is always written: in lower case.
func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && hex.EncodeToString(b) == s
}
