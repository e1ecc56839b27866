package network

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// linkLocal are the addresses that a cloud gives its metadata service one of
// (169.254.169.254): it answers whoever asks on the machine with the machine's
// credentials.
var linkLocal = netip.MustParsePrefix("169.254.0.0/16")

// metadataSet has the addresses of the pods that may reach linkLocal.
const metadataSet = "metadata"

const icmpAdminProhibited = 13

// rejectMetadata refuses what pods begin to link-local addresses off the node.
// What the node itself has on such an address (a DNS server) is not forwarded
// and so not meant, nor are pods of the host's network.
func rejectMetadata(c *nftables.Conn, t *nftables.Table, bridge string, may []netip.Addr) error {
	set := &nftables.Set{Table: t, Name: metadataSet, KeyType: nftables.TypeIPAddr}
	if err := c.AddSet(set, elements(may)); err != nil {
		return fmt.Errorf("make set of pods that may reach metadata: %w", err)
	}
	accept := nftables.ChainPolicyAccept
	before := *nftables.ChainPriorityFilter - 1
	chain := c.AddChain(&nftables.Chain{Name: "metadata", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: &before, Policy: &accept})
	exprs := append(ifname(expr.MetaKeyIIFNAME, expr.CmpOpEq, bridge), addr(ipDst, expr.CmpOpEq, linkLocal)...)
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: append(exprs,
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0}}, // original: the pod has begun it
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: ipSrc, Len: 4},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID, Invert: true},
		&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: icmpAdminProhibited},
	)})
	return nil
}

func elements(addrs []netip.Addr) []nftables.SetElement {
	var out []nftables.SetElement
	for _, a := range addrs {
		out = append(out, nftables.SetElement{Key: a.AsSlice()})
	}
	return out
}

// allowMetadata lets a pod reach link-local addresses, or no longer. The note
// comes last when it opens and first when it closes, so that a crash between
// leaves less open and not more.
func (n *Network) allowMetadata(l lease, may bool) error {
	if !may {
		if err := n.leases.setMetadata(l, false); err != nil {
			return err
		}
	}
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	set := &nftables.Set{Table: &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}, Name: metadataSet, KeyType: nftables.TypeIPAddr}
	change := c.SetAddElements
	if !may {
		change = c.SetDeleteElements
	}
	if err := change(set, elements([]netip.Addr{l.IP})); err != nil {
		return fmt.Errorf("write set of pods that may reach metadata: %w", err)
	}
	if err := c.Flush(); err != nil && (may || !errors.Is(err, unix.ENOENT)) {
		return fmt.Errorf("write set of pods that may reach metadata: %w", err)
	}
	if may {
		return n.leases.setMetadata(l, true)
	}
	return nil
}
