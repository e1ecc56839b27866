package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/disk"
)

// disk writes the image of a new disk, in the two forms that machines take.
func (j *job) disk(context.Context) (string, error) {
	root, err := os.Open(j.rootFile)
	if err != nil {
		return "", err
	}
	defer root.Close()
	raw := j.path("raw")
	if err := create(raw, func(f *os.File) error {
		return disk.Assemble(f, disk.Parts{Version: j.cfg.Version, Seed: "writ image " + j.cfg.Version,
			Root: root, RootSize: j.rootSize, Tree: j.hashes, ESP: j.espFiles()})
	}); err != nil {
		return "", err
	}
	in, size, err := openSized(raw)
	if err != nil {
		return "", err
	}
	defer in.Close()
	files, wait := [2]File{}, errgroup.Group{}
	wait.Go(func() (err error) {
		files[0], err = j.make(rawSuffix, func(f *os.File) error { return bundle.Pack(f, io.NewSectionReader(in, 0, size), j.cfg.Level) })
		return err
	})
	wait.Go(func() (err error) {
		files[1], err = j.make(qcow2Suffix, func(f *os.File) error { return disk.QCOW2(f, in, size) })
		return err
	})
	if err := wait.Wait(); err != nil {
		return "", err
	}
	j.result.Files = append(j.result.Files, files[:]...)
	return fmt.Sprintf("%s, compressed %s", megabytes(size), megabytes(files[0].Size)), os.Remove(raw)
}

// openSized opens a file and says how long it is, in bytes.
func openSized(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (j *job) bundle(context.Context) (string, error) {
	root, err := os.Open(j.rootFile)
	if err != nil {
		return "", err
	}
	defer root.Close()
	packed := j.path("root.zst")
	if err := create(packed, func(f *os.File) error { return bundle.Pack(f, root, j.cfg.Level) }); err != nil {
		return "", err
	}
	in, size, err := openSized(packed)
	if err != nil {
		return "", err
	}
	defer in.Close()
	section := func(b []byte) *io.SectionReader { return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))) }
	if err := j.produce(bundleSuffix, func(f *os.File) error {
		_, err := bundle.Write(f, bundle.Parts{Version: j.cfg.Version, Arch: Arch, RootHash: j.result.RootHash, Created: j.cfg.Epoch,
			Root: io.NewSectionReader(in, 0, size), RootSize: j.rootSize, Verity: section(j.hashes.Bytes), UKI: section(j.kernel)}, j.cfg.Signer)
		return err
	}); err != nil {
		return "", err
	}
	signed := "not signed"
	if j.cfg.Signer != nil {
		signed = "signed"
	}
	return megabytes(j.result.Files[len(j.result.Files)-1].Size) + ", " + signed, nil
}

func (j *job) materials(context.Context) (string, error) {
	m, err := j.bill()
	if err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return "", err
	}
	if err := j.produce(sbomSuffix, func(f *os.File) error { _, err := f.Write(append(b, '\n')); return err }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d packages and modules", len(m.Packages)-1), nil
}

func (j *job) sums(context.Context) (string, error) {
	slices.SortFunc(j.result.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var sums bytes.Buffer
	for _, f := range j.result.Files {
		fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Name)
	}
	if err := create(j.path(SumsFile), func(f *os.File) error { _, err := f.Write(sums.Bytes()); return err }); err != nil {
		return "", err
	}
	if j.cfg.Signer == nil {
		return "not signed", nil
	}
	sig, err := sshsig.Sign(bytes.NewReader(sums.Bytes()), j.cfg.Signer, sshsig.HashSHA512, bundle.Namespace)
	if err != nil {
		return "", fmt.Errorf("sign sums: %w", err)
	}
	return "signed", create(j.path(SignatureFile), func(f *os.File) error { _, err := f.Write(sshsig.Armor(sig)); return err })
}

// produce makes one file of the result.
func (j *job) produce(suffix string, fill func(f *os.File) error) error {
	f, err := j.make(suffix, fill)
	if err == nil {
		j.result.Files = append(j.result.Files, f)
	}
	return err
}

// make writes a file and reads what it has become.
func (j *job) make(suffix string, fill func(f *os.File) error) (File, error) {
	name := j.name(suffix)
	if err := create(j.path(name), fill); err != nil {
		return File{}, fmt.Errorf("make %s: %w", name, err)
	}
	f, err := os.Open(j.path(name))
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return File{Name: name, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// publish puts the result into its directory; the sums, by which others believe
// in it, last. A signature from before would not belong to them.
func (j *job) publish() error {
	for _, name := range []string{SumsFile, SignatureFile} {
		if err := os.Remove(filepath.Join(j.cfg.Out, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	names := make([]string, 0, len(j.result.Files)+2)
	for _, f := range j.result.Files {
		names = append(names, f.Name)
	}
	if j.cfg.Signer != nil {
		names = append(names, SignatureFile)
	}
	for _, name := range append(names, SumsFile) {
		if err := os.Rename(j.path(name), filepath.Join(j.cfg.Out, name)); err != nil {
			return err
		}
	}
	return nil
}
