package network

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tableName is the nftables table of this package.
const tableName = "writ-network"

// setupRules replaces the table in one transaction:
//
//	table ip writ-network {
//		chain prerouting  { type filter hook prerouting priority raw
//			iifname != "lo" ip daddr 127.0.0.0/8 drop
//			iifname != "lo" ip saddr 127.0.0.0/8 drop }
//		chain postrouting { type nat hook postrouting priority srcnat
//			ip saddr <pods here> ip daddr != <all pods> oifname != "writ0" masquerade }
//		chain forward, output { type filter hook ... priority filter
//			oifname != "lo" ip daddr <services> reject with icmp host-unreachable }
//		set metadata { pods that may }
//		chain metadata { type filter hook forward priority filter - 1
//			iifname "writ0" ip daddr 169.254.0.0/16 ct direction original
//			ip saddr != @metadata reject with icmp admin-prohibited }
//	}
//
// The last one is in metadata.go. What is still for a service address in the
// chains before belongs to no Service, and must not wander out of the node. The first two undo what route_localnet opens: services of the node that
// listen on 127.0.0.1 stay out of reach of pods. Replies to node ports on
// 127.0.0.1 still have the bridge's address when they pass there.
func setupRules(cfg Config, metadata []netip.Addr) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	t := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName}
	c.AddTable(t)
	c.DelTable(t)
	c.AddTable(t)
	accept := nftables.ChainPolicyAccept
	pre := c.AddChain(&nftables.Chain{Name: "prerouting", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw, Policy: &accept})
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	for _, field := range []uint32{ipDst, ipSrc} {
		exprs := append(ifname(expr.MetaKeyIIFNAME, expr.CmpOpNeq, "lo"), addr(field, expr.CmpOpEq, loopback)...)
		c.AddRule(&nftables.Rule{Table: t, Chain: pre, Exprs: append(exprs, &expr.Verdict{Kind: expr.VerdictDrop})})
	}
	post := c.AddChain(&nftables.Chain{Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource, Policy: &accept})
	exprs := addr(ipSrc, expr.CmpOpEq, cfg.PodCIDR)
	if cfg.ClusterCIDR.IsValid() {
		exprs = append(exprs, addr(ipDst, expr.CmpOpNeq, cfg.ClusterCIDR)...)
	}
	exprs = append(exprs, ifname(expr.MetaKeyOIFNAME, expr.CmpOpNeq, cfg.Bridge)...)
	c.AddRule(&nftables.Rule{Table: t, Chain: post, Exprs: append(exprs, &expr.Masq{})})
	if err := rejectMetadata(c, t, cfg.Bridge, metadata); err != nil {
		return err
	}
	if cfg.ServiceCIDR.IsValid() {
		rejectServices(c, t, cfg.ServiceCIDR)
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("write nftables table %s: %w", tableName, err)
	}
	return nil
}

// rejectServices answers for service addresses that nobody has.
func rejectServices(c *nftables.Conn, t *nftables.Table, services netip.Prefix) {
	accept := nftables.ChainPolicyAccept
	for name, hook := range map[string]*nftables.ChainHook{"forward": nftables.ChainHookForward, "output": nftables.ChainHookOutput} {
		chain := c.AddChain(&nftables.Chain{Name: name, Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: hook, Priority: nftables.ChainPriorityFilter, Policy: &accept})
		exprs := append(ifname(expr.MetaKeyOIFNAME, expr.CmpOpNeq, "lo"), addr(ipDst, expr.CmpOpEq, services)...)
		exprs = append(exprs, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: icmpHostUnreachable})
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: exprs})
	}
}

const icmpHostUnreachable = 1

// Offsets of the addresses in an IPv4 header.
const (
	ipSrc = 12
	ipDst = 16
)

// addr matches an address of the packet against a range.
func addr(offset uint32, op expr.CmpOp, p netip.Prefix) []expr.Any {
	p = p.Masked()
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: p.Addr().AsSlice()},
	}
}

// ifname matches the name of the interface a packet came from or goes to.
func ifname(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	data := make([]byte, 16)
	copy(data, name)
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: op, Register: 1, Data: data},
	}
}
