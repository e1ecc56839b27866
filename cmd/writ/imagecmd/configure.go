package imagecmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Configure writes a node.yaml into a disk, a file or a device, for its first
// start. With findings nothing is written.
func Configure(image, node string) (config.Node, []v1alpha1.Finding, error) {
	data, err := os.ReadFile(node)
	if err != nil {
		return config.Node{}, nil, fmt.Errorf("read configuration: %w", err)
	}
	n, findings := config.Parse(filepath.Clean(node), data)
	if len(findings) > 0 {
		return n, findings, nil
	}
	f, kind, size, err := open(image, os.O_RDWR)
	if err != nil {
		return n, nil, fmt.Errorf("open image: %w", err)
	}
	if kind != Disk {
		return n, nil, errors.Join(fmt.Errorf("%s is a %s: nodes are configured by the disk that they start from", image, kind), f.Close())
	}
	offset, length, err := esp.Locate(f, size)
	if err == nil {
		err = esp.Put(f, offset, length, config.ESPPath, data)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return n, nil, fmt.Errorf("configure %s: %w", image, err)
	}
	return n, nil, nil
}
