package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/uki"
	"github.com/writ-os/writ/image/verity"
)

// Version is a version of the appliance, with random bytes for content.
type Version struct {
	Version, RootHash string
	Root, Tree, UKI   []byte
}

// rootBlocks is how large its root file system is.
const rootBlocks = 9

// NewVersion makes a version: always the same one of the same name.
func NewVersion(version string) (*Version, error) {
	seed := sha256.Sum256([]byte(version))
	random := rand.NewChaCha8(seed)
	v := &Version{Version: version, Root: make([]byte, rootBlocks*verity.BlockSize)}
	kernel := make([]byte, 20<<10)
	for _, b := range [][]byte{v.Root, kernel} {
		if _, err := random.Read(b); err != nil {
			return nil, err
		}
	}
	tree, err := verity.Build(bytes.NewReader(v.Root), int64(len(v.Root)), verity.ParamsOf(version))
	if err != nil {
		return nil, fmt.Errorf("make version %s: %w", version, err)
	}
	v.Tree, v.RootHash = tree.Bytes, hex.EncodeToString(tree.RootHash[:])
	v.UKI, err = uki.Build(stub(), uki.Sections{Cmdline: "roothash=" + v.RootHash + " ro quiet", Linux: kernel, OSRelease: "ID=writ\n"})
	if err != nil {
		return nil, fmt.Errorf("make version %s: %w", version, err)
	}
	return v, nil
}

// Bundle is the version as it travels; signer may be nil.
func (v *Version) Bundle(signer ssh.Signer) ([]byte, error) {
	var packed, b bytes.Buffer
	if err := bundle.Pack(&packed, bytes.NewReader(v.Root), bundle.Quick); err != nil {
		return nil, err
	}
	_, err := bundle.Write(&b, bundle.Parts{
		Version: v.Version, Arch: "amd64", RootHash: v.RootHash, Created: time.Unix(1700000000, 0),
		Root: section(packed.Bytes()), RootSize: int64(len(v.Root)), Verity: section(v.Tree), UKI: section(v.UKI),
	}, signer)
	return b.Bytes(), err
}

func section(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

// Addon is that of slot.Slots.
func Addon(arguments string) ([]byte, error) { return uki.Addon(stub(), arguments) }
