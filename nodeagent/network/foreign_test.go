package network

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// A firewall that drops what is forwarded is named, until it lets pods through.
func TestForeignFirewallIsNamed(t *testing.T) {
	n := setup(t, t.TempDir())
	a := attach(t, n, "uid-a")
	ns := cloud(t, n, t.TempDir())
	serve(t, ns, "169.254.169.254:80")
	if err := n.allowMetadata(mustLease(t, n, "uid-a"), true); err != nil {
		t.Fatal(err)
	}
	reach := func(want bool) {
		t.Helper()
		if _, err := call(t, a.NetNS, "169.254.169.254:80"); (err == nil) != want {
			t.Errorf("a pod reaches the world: %v, want %v", err, want)
		}
		all, err := Dropped("")
		if err != nil || (len(all) == 0) != want {
			t.Errorf("said: %q %v", all, err)
		}
	}
	reach(true)
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	drop := nftables.ChainPolicyDrop
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "filter"})
	chain := c.AddChain(&nftables.Chain{Name: "FORWARD", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drop})
	t.Cleanup(func() {
		c.DelTable(table)
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	reach(false)
	for _, key := range []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME} {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(ifname(key, expr.CmpOpEq, "writ0"), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept})})
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	reach(true)
}

func mustLease(t *testing.T, n *Network, uid string) lease {
	t.Helper()
	l, ok := n.leases.get(uid)
	if !ok {
		t.Fatalf("no lease of %s", uid)
	}
	return l
}
