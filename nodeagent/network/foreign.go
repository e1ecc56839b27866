package network

import (
	"bytes"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

// Firewalls of others that drop what is forwarded, as Docker's and ufw's, would
// cut pods off: an accept of ours does not outvote a drop of theirs. In the chain
// that all of iptables share, rules let pods through, as those that kube-proxy and
// CNI plugins put there; it is the chain of nobody alone. A table of somebody's own
// is theirs to change, and is only named.
const (
	sharedTable, sharedChain = "filter", "FORWARD"
	ruleMark                 = "writ: pods" // comment of the rules that are ours
)

// LetThrough lets pods through the firewall of iptables where that drops them, and
// says which chains others must open. opened says that it had to. Rules of
// iptables-legacy are neither seen nor made.
func LetThrough(bridge string) (opened bool, dropped []string, err error) {
	if bridge == "" {
		bridge = "writ0"
	}
	c, err := nftables.New()
	if err != nil {
		return false, nil, fmt.Errorf("open nftables: %w", err)
	}
	err = eachDropping(c, func(ch *nftables.Chain, rules []*nftables.Rule) {
		in, out := passes(rules, expr.MetaKeyIIFNAME, bridge), passes(rules, expr.MetaKeyOIFNAME, bridge)
		switch {
		case in && out:
		case ch.Table.Family == nftables.TableFamilyIPv4 && ch.Table.Name == sharedTable && ch.Name == sharedChain:
			opened = true
			if !in {
				c.InsertRule(acceptAll(ch, expr.MetaKeyIIFNAME, bridge))
			}
			if !out {
				c.InsertRule(acceptAll(ch, expr.MetaKeyOIFNAME, bridge))
			}
		default:
			dropped = append(dropped, fmt.Sprintf("forwarding: chain %s of table %s drops packets of pods: let %s through there, as by nft insert rule %s %[2]s %[1]s iifname %[3]s accept and the same with oifname",
				ch.Name, ch.Table.Name, bridge, familyNames[ch.Table.Family]))
		}
	})
	if err == nil && opened {
		err = c.Flush()
	}
	if err != nil {
		return false, dropped, fmt.Errorf("let pods through the firewall of iptables: %w", err)
	}
	return opened, dropped, nil
}

var familyNames = map[nftables.TableFamily]string{nftables.TableFamilyIPv4: "ip", nftables.TableFamilyINet: "inet"}

// eachDropping calls fn for the chains that drop what is forwarded and no rule lets
// through.
func eachDropping(c *nftables.Conn, fn func(*nftables.Chain, []*nftables.Rule)) error {
	for family := range familyNames {
		chains, err := c.ListChainsOfTableFamily(family)
		if err != nil {
			return fmt.Errorf("list chains: %w", err)
		}
		for _, ch := range chains {
			if ch.Hooknum == nil || *ch.Hooknum != *nftables.ChainHookForward || ch.Policy == nil || *ch.Policy != nftables.ChainPolicyDrop {
				continue
			}
			rules, err := c.GetRules(ch.Table, ch)
			if err != nil {
				return fmt.Errorf("list rules of chain %s: %w", ch.Name, err)
			}
			fn(ch, rules)
		}
	}
	return nil
}

// acceptAll accepts all of an interface, in the very bytes of `iptables -I FORWARD
// -i NAME -j ACCEPT`: iptables refuses to work on chains with rules that it cannot
// read.
func acceptAll(ch *nftables.Chain, key expr.MetaKey, name string) *nftables.Rule {
	return &nftables.Rule{Table: ch.Table, Chain: ch, UserData: userdata.AppendString(nil, userdata.TypeComment, ruleMark), Exprs: []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: append([]byte(name), 0)},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}}
}

// closeForeign takes the rules of LetThrough away.
func closeForeign(c *nftables.Conn) error {
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	for _, ch := range chains {
		if ch.Table.Name != sharedTable || ch.Name != sharedChain {
			continue
		}
		rules, err := c.GetRules(ch.Table, ch)
		if err != nil {
			return fmt.Errorf("list rules of chain %s: %w", ch.Name, err)
		}
		for _, r := range rules {
			if mark, ok := userdata.GetString(r.UserData, userdata.TypeComment); !ok || mark != ruleMark {
				continue
			}
			if err := c.DelRule(r); err != nil {
				return fmt.Errorf("remove a rule of chain %s: %w", ch.Name, err)
			}
		}
	}
	return c.Flush()
}

// passes says whether a rule accepts all of an interface, by the shape that
// nft and iptables-nft give it.
func passes(rules []*nftables.Rule, key expr.MetaKey, name string) bool {
	for _, r := range rules {
		matches, accepts, other := false, false, false
		var asked expr.MetaKey
		for _, e := range r.Exprs {
			switch e := e.(type) {
			case *expr.Meta:
				asked = e.Key
			case *expr.Cmp:
				if asked == key && e.Op == expr.CmpOpEq && string(bytes.TrimRight(e.Data, "\x00")) == name {
					matches = true
				} else {
					other = true
				}
			case *expr.Verdict:
				accepts = e.Kind == expr.VerdictAccept
			case *expr.Counter:
			default:
				other = true
			}
		}
		if matches && accepts && !other {
			return true
		}
	}
	return false
}
