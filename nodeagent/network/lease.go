package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/writ-os/writ/controlplane/durable"
)

// lease is the claim of one pod on one address.
type lease struct {
	UID       string     `json:"uid"`
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name,omitempty"`
	IP        netip.Addr `json:"ip"`
	// Metadata says that the pod may reach link-local addresses off the node.
	Metadata bool `json:"metadata,omitempty"`
}

// leases hands out the addresses of a range. Each lease is a file of its own,
// put in place by a rename, so that kill -9 leaves whole leases only. They are
// not synced to the disk: when the machine loses power the pods are gone too.
type leases struct {
	dir  string
	cidr netip.Prefix

	mu    sync.Mutex
	byUID map[string]lease
	byIP  map[netip.Addr]string
	last  netip.Addr // the address given last: the next search starts behind it
}

// openLeases reads the leases of an earlier process.
func openLeases(dir string, cidr netip.Prefix, log *slog.Logger) (*leases, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ls := &leases{dir: dir, cidr: cidr.Masked(), byUID: map[string]lease{}, byIP: map[netip.Addr]string{}}
	ls.last = gateway(cidr)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		l, err := readLease(path)
		switch {
		case !strings.HasSuffix(f.Name(), ".json"):
			err = errors.New("left by an interrupted write")
		case err == nil && !ls.usable(l.IP):
			err = fmt.Errorf("address %s is not of %s", l.IP, cidr)
		case err == nil && ls.byIP[l.IP] != "":
			err = fmt.Errorf("address %s belongs to pod %s", l.IP, ls.byIP[l.IP])
		}
		if err != nil {
			log.Warn("dropped lease", "file", path, "err", err)
			if err := os.Remove(path); err != nil {
				log.Warn("remove lease", "file", path, "err", err)
			}
			continue
		}
		ls.hold(l)
		if ls.last.Less(l.IP) {
			ls.last = l.IP
		}
	}
	return ls, nil
}

func readLease(path string) (lease, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return lease{}, err
	}
	var l lease
	if err := json.Unmarshal(data, &l); err != nil {
		return lease{}, err
	}
	if !validUID(l.UID) || !l.IP.IsValid() {
		return lease{}, errors.New("incomplete lease")
	}
	return l, nil
}

// take returns the pod's lease, a new one if it has none. Addresses are given
// out in a circle, so that a freed one rests as long as possible.
func (ls *leases) take(pod Pod) (lease, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, ok := ls.byUID[pod.UID]; ok {
		return l, nil
	}
	ip, ok := ls.free()
	if !ok {
		return lease{}, fmt.Errorf("all %d addresses of %s are in use", len(ls.byIP), ls.cidr)
	}
	l := lease{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, IP: ip}
	if err := ls.write(l); err != nil {
		return lease{}, fmt.Errorf("write lease of %s: %w", ip, err)
	}
	ls.hold(l)
	ls.last = ip
	return l, nil
}

// setMetadata notes whether a pod may reach link-local addresses.
func (ls *leases) setMetadata(l lease, may bool) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.Metadata = may
	if err := ls.write(l); err != nil {
		return fmt.Errorf("write lease of %s: %w", l.IP, err)
	}
	ls.hold(l)
	return nil
}

// metadata are the addresses of the pods that may reach link-local addresses.
func (ls *leases) metadata() []netip.Addr {
	var out []netip.Addr
	for _, l := range ls.all() {
		if l.Metadata {
			out = append(out, l.IP)
		}
	}
	return out
}

// adopt records a lease that was found in a running namespace.
func (ls *leases) adopt(l lease) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if uid := ls.byIP[l.IP]; uid != "" {
		return fmt.Errorf("address %s belongs to pod %s", l.IP, uid)
	}
	if err := ls.write(l); err != nil {
		return err
	}
	ls.hold(l)
	return nil
}

func (ls *leases) release(uid string) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.byUID[uid]
	if !ok {
		return nil
	}
	if err := os.Remove(ls.file(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove lease of %s: %w", l.IP, err)
	}
	delete(ls.byUID, uid)
	delete(ls.byIP, l.IP)
	return nil
}

func (ls *leases) get(uid string) (lease, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.byUID[uid]
	return l, ok
}

func (ls *leases) all() []lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	out := make([]lease, 0, len(ls.byUID))
	for _, l := range ls.byUID {
		out = append(out, l)
	}
	return out
}

// free finds an address behind the one given last.
func (ls *leases) free() (netip.Addr, bool) {
	first := gateway(ls.cidr).Next()
	for ip, turned := ls.last.Next(), false; ; ip = ip.Next() {
		if !ls.usable(ip) {
			if turned {
				return netip.Addr{}, false
			}
			ip, turned = first, true
		}
		if ls.byIP[ip] == "" {
			return ip, true
		}
	}
}

// usable says whether a pod may have the address: not those of the network,
// the bridge and the broadcast.
func (ls *leases) usable(ip netip.Addr) bool {
	return ls.cidr.Contains(ip) && gateway(ls.cidr).Less(ip) && ls.cidr.Contains(ip.Next())
}

func (ls *leases) hold(l lease) {
	ls.byUID[l.UID] = l
	ls.byIP[l.IP] = l.UID
}

func (ls *leases) write(l lease) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.Replace(ls.file(l.UID), data, 0o600) // no address outlives the namespaces of its machine
}

func (ls *leases) file(uid string) string { return filepath.Join(ls.dir, uid+".json") }
