package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Observed is everything that is decided from.
type Observed struct {
	Wanted Wanted
	Record Record
	// Sysctls are those that are wanted or remembered, and their twins, as they are
	// now, by path.
	Sysctls map[string]Reading
	Time    Time
}

// Reading is the value of a sysctl, or why there is none.
type Reading struct {
	Value string
	Err   error
}

// Time is how the machine keeps its time.
type Time struct {
	// Synced: systemd-timesyncd runs.
	Synced bool
	// Servers is our drop-in of it; "" is none.
	Servers string
}

// Do is one thing to do.
type Do string

// What can be done.
const (
	SetSysctl    Do = "SetSysctl"
	ResetSysctl  Do = "ResetSysctl"  // to what it was before
	ForgetSysctl Do = "ForgetSysctl" // it is gone, with its device or its module
	SetServers   Do = "SetServers"   // "": takes ours away
)

// Change is a Do with what it is done to.
type Change struct {
	Do Do
	// Name is the path of a sysctl.
	Name string
	// At is the path that is written, where that is another one: the twin's.
	At    string
	Value string
}

// Plan is what is to be done, in this order, and what cannot be.
type Plan struct {
	Changes  []Change
	Problems []string
}

// Decide compares what is wanted with what is. What is taken back comes alone:
// what else is to be set is decided of the values from before.
func Decide(o Observed) Plan {
	p := Plan{Problems: slices.Clone(o.Wanted.Refused)}
	for _, at := range slices.Sorted(maps.Keys(o.Record.Sysctls)) {
		if _, wanted := o.Wanted.Sysctls[at]; !wanted {
			p.Changes = append(p.Changes, takeBack(at, o.Record.Sysctls[at], o.Sysctls[at]))
		}
	}
	if len(p.Changes) == 0 {
		for _, at := range slices.Sorted(maps.Keys(o.Wanted.Sysctls)) {
			p.sysctl(o, at)
		}
	}
	p.servers(o)
	return p
}

func takeBack(at string, r Remembered, now Reading) Change {
	if errors.Is(now.Err, fs.ErrNotExist) {
		return Change{Do: ForgetSysctl, Name: at}
	}
	if twin := twins[at]; twin != "" && r.Before[at] == "0" {
		return Change{Do: ResetSysctl, Name: at, At: twin, Value: r.Before[twin]}
	}
	return Change{Do: ResetSysctl, Name: at, At: at, Value: r.Before[at]}
}

func (p *Plan) sysctl(o Observed, at string) {
	want, now := o.Wanted.Sysctls[at], o.Sysctls[at]
	r, ours := o.Record.Sysctls[at]
	switch {
	case now.Err != nil:
		p.Problems = append(p.Problems, sysctlError(at, "", now.Err))
	case ours && r.Set != nil && *r.Set == want && same(now.Value, r.Reads):
	case !ours && same(now.Value, want):
	default:
		p.Changes = append(p.Changes, Change{Do: SetSysctl, Name: at, At: at, Value: want})
	}
}

func (p *Plan) servers(o Observed) {
	want := dropIn(o.Wanted.TimeServers)
	switch {
	case o.Time.Servers == want && o.Record.Servers == want:
	case want != "" && !o.Time.Synced:
		p.Problems = append(p.Problems, "time servers: this machine does not keep its time by systemd-timesyncd")
	default:
		p.Changes = append(p.Changes, Change{Do: SetServers, Value: want})
	}
}

// same says whether two values are one for the kernel, which separates by tabs
// what is set with blanks.
func same(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) }

// dropIn is the configuration of systemd-timesyncd; "" for no servers. The empty
// line takes away those that node.yaml names.
func dropIn(servers []string) string {
	if len(servers) == 0 {
		return ""
	}
	return "# Written by writ: the time servers of this node's NodePool.\n[Time]\nNTP=\nNTP=" + strings.Join(servers, " ") + "\n"
}

// sysctlError is the sentence that says why a sysctl is not what it should be;
// value is what was written, "" for reading.
func sysctlError(at, value string, err error) string {
	what := "sysctl " + nameOf(at) + ": "
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return what + "this kernel has no such parameter"
	case errors.Is(err, fs.ErrPermission) && value == "":
		return what + "it cannot be read, and so not be given back"
	case errors.Is(err, fs.ErrPermission):
		return what + "the kernel lets nobody change it"
	case errors.Is(err, errInvalid):
		return what + fmt.Sprintf("the kernel refuses the value %q", value)
	}
	return what + err.Error()
}
