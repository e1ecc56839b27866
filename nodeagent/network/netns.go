package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// shareMount makes dir a mount point whose mounts reach other mount
// namespaces: the container runtime must see the network namespaces that are
// mounted there later.
func shareMount(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// Not a mount point yet.
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// makeNS creates a network namespace, mounts it at path and calls fill in it,
// on a thread of its own that ends afterwards: threads that serve other
// goroutines never change their namespace. The namespace is removed again when
// fill fails.
func makeNS(path string, fill func(ns netlink.NsFd) error) error {
	err := onOwnThread(func() error { return enterNewNS(path, fill) })
	if err != nil {
		if rmErr := removeNS(path); rmErr != nil {
			return errors.Join(err, rmErr)
		}
		return err
	}
	return nil
}

// onOwnThread runs fn on a thread that nothing else runs on, before or after.
func onOwnThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			done <- fn()
			return
		}
		// The main thread cannot end; it would keep the namespace alive, and be
		// what /proc/self shows. While it is held here, another one is used.
		defer runtime.UnlockOSThread()
		done <- onOwnThread(fn)
	}()
	return <-done
}

func enterNewNS(path string, fill func(ns netlink.NsFd) error) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("create network namespace: %w", err)
	}
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer ns.Close()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	_ = f.Close()
	// The namespace is filled first and mounted last: a path that is mounted
	// is complete.
	if err := fill(netlink.NsFd(ns.Fd())); err != nil {
		return err
	}
	src := fmt.Sprintf("/proc/self/fd/%d", ns.Fd())
	if err := unix.Mount(src, path, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount network namespace: %w", err)
	}
	return nil
}

// removeNS unmounts a namespace and removes its file. The kernel frees the
// namespace when its last process and descriptor are gone.
func removeNS(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err == nil {
			continue // there may be one mount above another
		}
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EINVAL) { // EINVAL: not mounted
			return fmt.Errorf("unmount %s: %w", path, err)
		}
		break
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// podAddr reads the address of eth0 in a namespace.
func podAddr(path string) (netip.Addr, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return netip.Addr{}, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return netip.Addr{}, err
	}
	defer h.Close()
	link, err := h.LinkByName(podLink)
	if err != nil {
		return netip.Addr{}, err
	}
	addrs, err := h.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return netip.Addr{}, err
	}
	if len(addrs) == 0 {
		return netip.Addr{}, fmt.Errorf("%s has no address", podLink)
	}
	ip, _ := netip.AddrFromSlice(addrs[0].IP.To4())
	return ip, nil
}
