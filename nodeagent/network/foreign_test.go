package network

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// A firewall of somebody's own that drops what is forwarded is named, until it lets
// pods through.
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
		opened, all, err := LetThrough("")
		if err != nil || opened || (len(all) == 0) != want {
			t.Errorf("said: %v %q %v", opened, all, err)
		}
	}
	reach(true)
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	drop := nftables.ChainPolicyDrop
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "guard"})
	chain := c.AddChain(&nftables.Chain{Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
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

// Where Docker, ufw or another user of iptables drops what is forwarded, pods come
// through, also when the rules were flushed; what others have there stays, and
// nothing of ours is left in the end.
func TestPodsComeThroughIptables(t *testing.T) {
	n := setup(t, t.TempDir())
	a := attach(t, n, "uid-a")
	ns := cloud(t, n, t.TempDir())
	serve(t, ns, "169.254.169.254:80")
	if err := n.allowMetadata(mustLease(t, n, "uid-a"), true); err != nil {
		t.Fatal(err)
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	drop := nftables.ChainPolicyDrop
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "filter"})
	chain := c.AddChain(&nftables.Chain{Name: "FORWARD", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drop})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(ifname(expr.MetaKeyIIFNAME, expr.CmpOpEq, "docker0"), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept})})
	t.Cleanup(func() {
		c.DelTable(table)
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	rules := func(want int) {
		t.Helper()
		if all, err := c.GetRules(table, chain); err != nil || len(all) != want {
			t.Errorf("%d rules, want %d: %v", len(all), want, err)
		}
	}
	if _, err := call(t, a.NetNS, "169.254.169.254:80"); err == nil {
		t.Fatal("the firewall drops nothing")
	}
	for range 2 {
		for _, want := range []bool{true, false} { // the second time there is nothing to do
			if opened, dropped, err := LetThrough(""); err != nil || opened != want || len(dropped) > 0 {
				t.Errorf("opened %v, want %v: %q %v", opened, want, dropped, err)
			}
			rules(3)
			if _, err := call(t, a.NetNS, "169.254.169.254:80"); err != nil {
				t.Errorf("a pod does not reach the world: %v", err)
			}
		}
		if err := closeForeign(c); err != nil {
			t.Error(err)
		}
		rules(1)
	}
}

func mustLease(t *testing.T, n *Network, uid string) lease {
	t.Helper()
	l, ok := n.leases.get(uid)
	if !ok {
		t.Fatalf("no lease of %s", uid)
	}
	return l
}
