package settings

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/writ-os/writ/nodeagent/settings/disk"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Wanted is what a pool says of its nodes. The zero value is that nothing is
// said.
type Wanted struct {
	// Pool that says it; "" is none.
	Pool string `json:"pool,omitempty"`
	// Sysctls are values by their paths below /proc/sys.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// TimeServers are names or addresses.
	TimeServers []string `json:"timeServers,omitempty"`
	// Mirrors are URLs by the registry that they stand for.
	Mirrors map[string][]string `json:"mirrors,omitempty"`
	// Hosts is what is said of registries and mirrors.
	Hosts map[string]Host `json:"hosts,omitempty"`
	// Disks are those that are wanted, by name.
	Disks []disk.Wanted `json:"disks,omitempty"`
	// Refused says why some of it is not done.
	Refused []string `json:"refused,omitempty"`
}

// Nothing says that no setting is wanted.
func (w *Wanted) Nothing() bool {
	return len(w.Sysctls)+len(w.TimeServers)+len(w.Mirrors)+len(w.Hosts)+len(w.Disks)+len(w.Refused) == 0
}

// Want reads what a pool says; nil is no pool. A pool that was checked with its
// commit has nothing that is refused here: this is for one that was not.
func Want(p *v1alpha1.NodePool) Wanted {
	if p == nil {
		return Wanted{}
	}
	w := Wanted{Pool: p.Name, TimeServers: append([]string(nil), p.Spec.TimeServers...)}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Sysctls)) {
		w.sysctl(name, p.Spec.Sysctls[name])
	}
	for i := range w.TimeServers {
		if strings.ContainsFunc(w.TimeServers[i], func(r rune) bool { return r <= ' ' }) {
			w.Refused, w.TimeServers = append(w.Refused, fmt.Sprintf("time server %q: is no name and no address", w.TimeServers[i])), nil
			break
		}
	}
	for _, r := range p.Spec.Registries {
		if len(r.Mirrors) == 0 {
			continue
		}
		if w.Mirrors == nil {
			w.Mirrors = map[string][]string{}
		}
		w.Mirrors[r.Host] = append(w.Mirrors[r.Host], r.Mirrors...)
	}
	w.Hosts = hostsOf(p.Spec.Registries)
	for i := range p.Spec.Disks {
		w.disk(&p.Spec.Disks[i])
	}
	if w.Nothing() {
		return Wanted{}
	}
	return w
}

func (w *Wanted) sysctl(name, value string) {
	at := v1alpha1.SysctlPath(name)
	why := v1alpha1.SysctlRefusal(at, value)
	switch other, twice := w.Sysctls[at]; {
	case at == "":
		why = "is not the name of a sysctl"
	case twice && other != value:
		why = "is there twice, with different values"
	}
	if twin := twins[at]; twin != "" && why == "" {
		if _, both := w.Sysctls[twin]; both {
			why = fmt.Sprintf("and %s exclude each other", nameOf(twin))
		}
	}
	if why != "" {
		w.Refused = append(w.Refused, fmt.Sprintf("sysctl %s: %s", name, why))
		return
	}
	if w.Sysctls == nil {
		w.Sysctls = map[string]string{}
	}
	w.Sysctls[at] = value
}

// diskName is what the schema has, too: it is part of a path here.
var diskName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,9}[a-z0-9])?$`)

func (w *Wanted) disk(d *v1alpha1.NodeDisk) {
	why := ""
	switch _, err := v1alpha1.SizeBounds(d.Match.Size); {
	case !diskName.MatchString(d.Name):
		why = "is no name of a disk"
	case slices.ContainsFunc(w.Disks, func(o disk.Wanted) bool { return o.Name == d.Name }):
		why = "is there twice"
	case d.Filesystem != "" && d.Filesystem != disk.Ext4:
		why = "wants a file system other than ext4"
	case d.Match.Empty():
		why = "says nothing of the disk"
	case err != nil:
		why = "has a " + err.Error()
	}
	if why != "" {
		w.Refused = append(w.Refused, fmt.Sprintf("disk %q: %s", d.Name, why))
		return
	}
	w.Disks = append(w.Disks, disk.Wanted{Name: d.Name, Match: d.Match})
}

// twins are sysctls of which one is 0 when the other is set. The one that is 0
// cannot be set to that: setting the other does it.
var twins = map[string]string{
	"vm/dirty_bytes": "vm/dirty_ratio", "vm/dirty_ratio": "vm/dirty_bytes",
	"vm/dirty_background_bytes": "vm/dirty_background_ratio", "vm/dirty_background_ratio": "vm/dirty_background_bytes",
	"vm/overcommit_kbytes": "vm/overcommit_ratio", "vm/overcommit_ratio": "vm/overcommit_kbytes",
}

// nameOf is how people call the sysctl at a path.
func nameOf(at string) string {
	if strings.Contains(at, ".") {
		return at
	}
	return strings.ReplaceAll(at, "/", ".")
}
