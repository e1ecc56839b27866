package imagecmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/vault/mark"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Configure writes a node.yaml into a disk, a file or a device, for its first
// start. With findings nothing is written.
func Configure(image, node string) (config.Node, []v1alpha1.Finding, error) {
	data, n, findings, err := readNode(node, time.Now())
	if err != nil || len(findings) > 0 {
		return n, findings, err
	}
	d, err := openDisk(image)
	if err != nil {
		return n, nil, err
	}
	if n.First() && n.Authority == nil && d.hasAuthority() {
		err = fmt.Errorf("%s has the authority of a cluster, made with a kubeconfig that would be of no use: %s has none; make both anew with --kubeconfig", image, node)
	} else {
		err = d.put(data, n)
	}
	return n, nil, errors.Join(err, d.close())
}

// readNode reads and checks a node.yaml.
func readNode(node string, now time.Time) ([]byte, config.Node, []v1alpha1.Finding, error) {
	data, err := os.ReadFile(node)
	if err != nil {
		return nil, config.Node{}, nil, fmt.Errorf("read configuration: %w", err)
	}
	name := filepath.Clean(node)
	n, findings := config.Parse(name, data)
	if len(findings) == 0 {
		findings = config.Expired(name, data, n, now)
	}
	if e := n.Encryption; e != nil && e.RecoveryKey == "" {
		return nil, n, nil, fmt.Errorf("%s: encryption needs its recoveryKey here: nothing else makes /var, or opens it when the TPM does not", name)
	}
	return data, n, findings, nil
}

// diskFile is a disk whose EFI system partition is written to.
type diskFile struct {
	file           *os.File
	name           string
	offset, length int64
}

func openDisk(image string) (*diskFile, error) {
	f, kind, size, err := open(image, os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	if kind != Disk {
		return nil, errors.Join(fmt.Errorf("%s is a %s: nodes are configured by the disk that they start from", image, kind), f.Close())
	}
	offset, length, err := esp.Locate(f, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configure %s: %w", image, err), f.Close())
	}
	return &diskFile{file: f, name: image, offset: offset, length: length}, nil
}

// mark says on the disk whether /var is to be encrypted, as far as it is not said.
func (d *diskFile) mark(encrypt bool) error {
	was, err := esp.Get(d.file, d.offset, d.length, mark.CredentialPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	now := ""
	switch {
	case encrypt:
		now = mark.Asked
	case was != nil:
		now = mark.NotAsked
	}
	if string(was) == now {
		return nil
	}
	return esp.Put(d.file, d.offset, d.length, mark.CredentialPath, []byte(now))
}

// hasAuthority says that the node.yaml on the disk has one, with its key.
func (d *diskFile) hasAuthority() bool {
	data, err := esp.Get(d.file, d.offset, d.length, config.ESPPath)
	if err != nil {
		return false // nothing that a machine would begin with
	}
	n, findings := config.Parse(config.Name, data)
	return len(findings) == 0 && n.Authority != nil
}

// put writes the node.yaml, and has it on the disk when it returns. The mark of
// encryption comes first: with it alone a machine says what is missing, without it
// it would make a plain /var.
func (d *diskFile) put(data []byte, n config.Node) error {
	err := d.mark(n.Encryption != nil)
	if err == nil {
		err = esp.Put(d.file, d.offset, d.length, config.ESPPath, data)
	}
	if err := errors.Join(err, d.file.Sync()); err != nil {
		return fmt.Errorf("configure %s: %w", d.name, err)
	}
	return nil
}

func (d *diskFile) close() error { return d.file.Close() }
