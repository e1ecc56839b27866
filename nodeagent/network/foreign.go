package network

import (
	"bytes"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Dropped says which chains of others drop what pods send and get, since they
// drop what is forwarded and none of their rules lets our bridge through: those
// of Docker and of ufw do. An accept of ours does not outvote them. Rules of
// iptables-legacy are not seen.
func Dropped(bridge string) ([]string, error) {
	if bridge == "" {
		bridge = "writ0"
	}
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	var out []string
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyINet} {
		chains, err := c.ListChainsOfTableFamily(family)
		if err != nil {
			return nil, fmt.Errorf("list chains: %w", err)
		}
		for _, ch := range chains {
			if ch.Hooknum == nil || *ch.Hooknum != *nftables.ChainHookForward || ch.Policy == nil || *ch.Policy != nftables.ChainPolicyDrop {
				continue
			}
			rules, err := c.GetRules(ch.Table, ch)
			if err != nil {
				return nil, fmt.Errorf("list rules of chain %s: %w", ch.Name, err)
			}
			if !passes(rules, expr.MetaKeyIIFNAME, bridge) || !passes(rules, expr.MetaKeyOIFNAME, bridge) {
				out = append(out, fmt.Sprintf("forwarding: chain %s of table %s drops packets of pods: let %s through there, as by iptables -I FORWARD -i %[3]s -j ACCEPT and the same with -o", ch.Name, ch.Table.Name, bridge))
			}
		}
	}
	return out, nil
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
