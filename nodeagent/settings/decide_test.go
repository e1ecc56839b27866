package settings

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestWant(t *testing.T) {
	pool := &v1alpha1.NodePool{}
	pool.Name = "workers"
	if got := fmt.Sprintf("%+v %+v", Want(nil), Want(pool)); strings.Contains(got, "workers") {
		t.Errorf("a pool without settings wants %s", got)
	}
	pool.Spec = v1alpha1.NodePoolSpec{
		Sysctls: map[string]string{
			"net.core.somaxconn": "1", "net/core/somaxconn": "2", "net.ipv4.ip_forward": "0", "A": "x",
			"vm.dirty_bytes": "1000000", "vm.dirty_ratio": "5", "net.ipv4.conf.eth0/100.rp_filter": "2", "kernel.pid_max": "99",
		},
		TimeServers: []string{"ntp.example.com", "192.0.2.1"},
		Registries: []v1alpha1.NodeRegistry{
			{Host: "docker.io", Mirrors: []string{"https://a"}}, {Host: "quay.io"}, {Host: "docker.io", Mirrors: []string{"https://b"}},
		},
	}
	w := Want(pool)
	if got, want := fmt.Sprint(w.Sysctls), "map[kernel/pid_max:99 net/core/somaxconn:1 net/ipv4/conf/eth0.100/rp_filter:2 vm/dirty_bytes:1000000]"; got != want {
		t.Errorf("sysctls %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(w.Pool, w.TimeServers, w.Mirrors), "workers[ntp.example.com 192.0.2.1] map[docker.io:[https://a https://b]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	want := []string{
		"sysctl A: is not the name of a sysctl",
		"sysctl net.ipv4.ip_forward: is the node agent's to set: the node routes between its pods and others",
		"sysctl net/core/somaxconn: is there twice, with different values",
		"sysctl vm.dirty_ratio: and vm.dirty_bytes exclude each other",
	}
	if !slices.Equal(w.Refused, want) {
		t.Errorf("refused\n%s", strings.Join(w.Refused, "\n"))
	}
	match := v1alpha1.NodeDiskMatch{Size: "> 1Gi"}
	pool.Spec = v1alpha1.NodePoolSpec{Disks: []v1alpha1.NodeDisk{{Name: "a", Match: match}, {Name: "../etc", Match: match}, {Name: "a", Match: match},
		{Name: "b"}, {Name: "c", Match: match, Filesystem: "xfs"}, {Name: "d", Match: v1alpha1.NodeDiskMatch{Size: "1"}}}}
	if w := Want(pool); len(w.Disks) != 1 || len(w.Refused) != 5 {
		t.Errorf("disks: %+v", w)
	}
	pool.Spec = v1alpha1.NodePoolSpec{TimeServers: []string{"a", "b\nFallbackNTP=evil"}}
	if w := Want(pool); w.TimeServers != nil || len(w.Refused) != 1 {
		t.Errorf("a line more: %+v", w)
	}
}

func TestDecide(t *testing.T) {
	set := func(before, value, reads string) Remembered {
		return Remembered{Before: map[string]string{"a/b": before}, Set: &value, Reads: reads}
	}
	remembered := func(r Remembered) Record { return Record{Sysctls: map[string]Remembered{"a/b": r}} }
	wanted := Wanted{Pool: "p", Sysctls: map[string]string{"a/b": "1 2"}}
	is := func(v string) map[string]Reading { return map[string]Reading{"a/b": {Value: v}} }
	fails := func(err error) map[string]Reading { return map[string]Reading{"a/b": {Err: err}} }
	servers := Wanted{TimeServers: []string{"x", "y"}}
	conf := dropIn(servers.TimeServers)
	dirty := Record{Sysctls: map[string]Remembered{"vm/dirty_bytes": {Before: map[string]string{"vm/dirty_bytes": "0", "vm/dirty_ratio": "20"}}}}
	for _, c := range []struct {
		name string
		o    Observed
		want string
	}{
		{"nothing", Observed{}, ""},
		{"to be set", Observed{Wanted: wanted, Sysctls: is("1 3")}, "SetSysctl a/b=1 2"},
		{"it is so by itself", Observed{Wanted: wanted, Sysctls: is("1\t2")}, ""},
		{"it was set", Observed{Wanted: wanted, Record: remembered(set("0", "1 2", "1\t2")), Sysctls: is("1\t2")}, ""},
		{"the kernel writes it otherwise", Observed{Wanted: wanted, Record: remembered(set("0", "1 2", "1-2")), Sysctls: is("1-2")}, ""},
		{"somebody has changed it", Observed{Wanted: wanted, Record: remembered(set("0", "1 2", "1\t2")), Sysctls: is("7")}, "SetSysctl a/b=1 2"},
		{"another value is wanted", Observed{Wanted: wanted, Record: remembered(set("0", "5", "5")), Sysctls: is("5")}, "SetSysctl a/b=1 2"},
		{"killed before it was set", Observed{Wanted: wanted, Record: remembered(Remembered{Before: map[string]string{"a/b": "1 2"}}), Sysctls: is("1 2")}, "SetSysctl a/b=1 2"},
		{"no such sysctl", Observed{Wanted: wanted, Sysctls: fails(fs.ErrNotExist)}, "! sysctl a.b: this kernel has no such parameter"},
		{"not to be read", Observed{Wanted: wanted, Sysctls: fails(fs.ErrPermission)}, "! sysctl a.b: it cannot be read, and so not be given back"},
		{"taken back", Observed{Record: remembered(set("0", "1 2", "1\t2")), Sysctls: is("1\t2")}, "ResetSysctl a/b=0"},
		{"taken back before all else", Observed{Wanted: Wanted{Sysctls: map[string]string{"c": "1"}}, Record: remembered(set("0", "1", "1")), Sysctls: is("1")}, "ResetSysctl a/b=0"},
		{"gone", Observed{Record: remembered(set("0", "1 2", "1\t2")), Sysctls: fails(fs.ErrNotExist)}, "ForgetSysctl a/b="},
		{"taken back by its twin", Observed{Record: dirty, Sysctls: map[string]Reading{"vm/dirty_bytes": {Value: "1000000"}}}, "ResetSysctl vm/dirty_bytes by vm/dirty_ratio=20"},
		{"refused", Observed{Wanted: Wanted{Refused: []string{"no"}}}, "! no"},

		{"servers", Observed{Wanted: servers, Time: Time{Synced: true}}, "SetServers =" + conf},
		{"servers are set", Observed{Wanted: servers, Time: Time{Synced: true, Servers: conf}, Record: Record{Servers: conf}}, ""},
		{"killed before the restart", Observed{Wanted: servers, Time: Time{Synced: true, Servers: conf}}, "SetServers =" + conf},
		{"/run is new", Observed{Wanted: servers, Time: Time{Synced: true}, Record: Record{Servers: conf}}, "SetServers =" + conf},
		{"no timesyncd", Observed{Wanted: servers}, "! time servers: this machine does not keep its time by systemd-timesyncd"},
		{"no servers any more", Observed{Time: Time{Synced: true, Servers: conf}, Record: Record{Servers: conf}}, "SetServers ="},
		{"killed before the other restart", Observed{Time: Time{Synced: true}, Record: Record{Servers: conf}}, "SetServers ="},
	} {
		p := Decide(c.o)
		var got []string
		for _, ch := range p.Changes {
			name := ch.Name
			if ch.At != ch.Name && ch.At != "" {
				name += " by " + ch.At
			}
			got = append(got, fmt.Sprintf("%s %s=%s", ch.Do, name, ch.Value))
		}
		for _, why := range p.Problems {
			got = append(got, "! "+why)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCondition(t *testing.T) {
	for _, c := range []struct {
		wanted   Wanted
		problems []string
		want     condition
	}{
		{Wanted{}, nil, condition{corev1.ConditionTrue, "NoSettings", "no pool says anything of this node's settings"}},
		{Wanted{Pool: "p", TimeServers: []string{"x"}}, nil, condition{corev1.ConditionTrue, "Applied", "the settings of NodePool p are in force"}},
		{Wanted{Pool: "p", TimeServers: []string{"x"}}, []string{"a", "b"}, condition{corev1.ConditionFalse, "NotApplied", "NodePool p: a; b"}},
		{Wanted{}, []string{strings.Repeat("ä", maxMessage)}, condition{corev1.ConditionFalse, "NotApplied", strings.Repeat("ä", maxMessage/2)}},
	} {
		if got := conditionOf(c.wanted, c.problems); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
