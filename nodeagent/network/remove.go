package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Remove takes away all that Setup and Attach have made: the namespaces of
// pods, the bridge, the packet rules and the leases. No pod may be running.
// What is not there is fine.
func Remove(cfg Config) error {
	cfg = New(cfg).cfg
	files, err := os.ReadDir(cfg.NetNSDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for _, f := range files {
		if err := removeNS(filepath.Join(cfg.NetNSDir, f.Name())); err != nil {
			return fmt.Errorf("remove namespace %s: %w", f.Name(), err)
		}
	}
	// The folder is a mount of its own; see shareMount.
	if err := unix.Unmount(cfg.NetNSDir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount %s: %w", cfg.NetNSDir, err)
	}
	if err := os.Remove(cfg.NetNSDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", cfg.NetNSDir, err)
	}
	for _, name := range []string{overlayName, cfg.Bridge + "-on", cfg.Bridge} { // with the first goes its other end
		link, err := netlink.LinkByName(name)
		if err != nil {
			continue // it is not there
		}
		if err := netlink.LinkDel(link); err != nil {
			return fmt.Errorf("remove link %s: %w", name, err)
		}
	}
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}
	c.AddTable(t) // so that there is one to delete
	c.DelTable(t)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("remove nftables table %s: %w", tableName, err)
	}
	if err := closeForeign(c); err != nil {
		return fmt.Errorf("remove the rules for pods in the firewall of iptables: %w", err)
	}
	if err := os.RemoveAll(cfg.StateDir); err != nil {
		return fmt.Errorf("remove leases: %w", err)
	}
	return nil
}
