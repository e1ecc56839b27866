package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/uki"
	"github.com/writ-os/writ/nodeagent/update"
	"github.com/writ-os/writ/schema"
)

// Where a machine with the node image has what updates need.
const (
	espMount  = config.RunDir + "/esp"
	addonStub = "/usr/lib/systemd/boot/efi/addonx64.efi.stub"
	efivars   = "/sys/firmware/efi/efivars"
)

// updates keeps the operating system of a machine that was started from a node
// image in step with what is declared, until ctx ends. Elsewhere it does nothing.
// A machine whose disk cannot be looked through still runs pods.
func (n *Node) updates(ctx context.Context, c client.Interface, cache client.Cache) error {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return fmt.Errorf("read kernel command line: %w", err)
	}
	found, err := slot.Find("/sys", "/dev", string(line))
	if errors.Is(err, slot.ErrNotHere) {
		return nil
	}
	if err != nil {
		n.log("update").Warn("this machine is not updated: its slots were not found", "err", err)
		return nil
	}
	slots, done, err := openSlots(found, string(line))
	if err != nil {
		n.log("update").Warn("this machine is not updated: its slots were not opened", "disk", found.Disk, "err", err)
		return nil
	}
	defer done()
	keys, err := imageKeys()
	if err != nil {
		return err
	}
	_, err = os.Stat(config.UnsignedImagesFile)
	unsigned := err == nil
	boot, err := bootID()
	if err != nil {
		return err
	}
	u := update.New(update.Config{
		NodeName: n.cfg.NodeName, MachineID: n.machine.ID, Client: c, Cache: cache, Images: update.NodeImages(c), Slots: slots, Dir: n.cfg.file("node", "update"), Keys: keys, Unsigned: unsigned,
		Healthy: func(context.Context) error { return n.healthy(cache, boot) },
		Reboot:  reboot, Log: n.log("update"),
	})
	n.updater.Store(u)
	return u.Run(ctx)
}

// updateHeld is how often the loop of updates was held back.
func (n *Node) updateHeld() uint64 {
	if u := n.updater.Load(); u != nil {
		return u.Held()
	}
	return 0
}

// openSlots mounts the EFI partition for as long as the node runs.
func openSlots(found slot.Found, commandLine string) (slots *slot.Slots, done func(), err error) {
	disk, err := slot.OpenDisk(found.Disk)
	if err != nil {
		return nil, nil, err
	}
	if err := mountESP(found.ESP); err != nil {
		return nil, nil, errors.Join(err, disk.Close())
	}
	esp, err := slot.OpenDir(espMount)
	if err != nil {
		return nil, nil, errors.Join(err, unix.Unmount(espMount, 0), disk.Close())
	}
	slots = &slot.Slots{Device: disk, ESP: esp, Booted: update.ReadBooted(efivars, commandLine), Addon: makeAddon,
		Accepts: func(kernel []byte) error { return uki.Accepted(efivars, kernel) }}
	return slots, func() {
		_ = errors.Join(esp.Close(), unix.Unmount(espMount, 0), disk.Close()) //nolint:errcheck // everything was synced when it was written
	}, nil
}

// makeAddon is what gives the kernel more arguments. The machine has no key to sign
// it with, and with Secure Boot systemd-stub leaves out what is not signed.
func makeAddon(arguments string) ([]byte, error) {
	switch secure, err := uki.SecureBoot(efivars); {
	case err != nil:
		return nil, err
	case secure:
		return nil, errors.New("this machine has Secure Boot on, and takes no kernel arguments but those of its image: take kernelArguments out of its NodePool")
	}
	stub, err := os.ReadFile(addonStub)
	if err != nil {
		return nil, fmt.Errorf("read addon stub: %w", err)
	}
	return uki.Addon(stub, arguments)
}

// mountESP also takes over from an agent that was killed.
func mountESP(device string) error {
	if err := os.MkdirAll(espMount, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", espMount, err)
	}
	if err := unix.Unmount(espMount, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", espMount, err)
	}
	if err := unix.Mount(device, espMount, "vfat", slot.MountFlags, slot.MountOptions); err != nil {
		return fmt.Errorf("mount EFI partition %s: %w", device, err)
	}
	return nil
}

// imageKeys are those of whoever may make images for this machine; none where
// its configuration names none: then it takes no image, but with unsignedImages.
func imageKeys() (bundle.Keys, error) {
	data, err := os.ReadFile(config.ImageKeysFile)
	if errors.Is(err, fs.ErrNotExist) {
		return bundle.Keys{}, nil
	}
	if err != nil {
		return bundle.Keys{}, fmt.Errorf("read image keys: %w", err)
	}
	return bundle.ParseKeys(config.ImageKeysFile, data)
}

// healthy says why this node is not what it should be since its last boot.
func (n *Node) healthy(cache client.Cache, boot string) error {
	o, ok := client.Cached[*corev1.Node](cache, schema.Key{Name: n.cfg.NodeName})
	switch {
	case !ok:
		return errors.New("the cluster does not know this node")
	case !isReady(&o.Status, boot):
		return errors.New("the cluster has not seen this node ready since its last start")
	}
	return nil
}

// bootID names this boot of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// reboot lets systemd end everything in order.
func reboot(ctx context.Context, reason string) error {
	if out, err := exec.CommandContext(ctx, "/usr/bin/systemctl", "reboot", "--message="+reason).CombinedOutput(); err != nil {
		return fmt.Errorf("reboot: %w: %s", err, out)
	}
	return nil
}
