package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// tableName is the nftables table of this package.
const tableName = "writ-proxy"

// masqMark is the bit of the packet mark that asks for masquerading.
const masqMark = 0x4000

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// nft is the Kernel: one table of maps, written over netlink.
//
//	table ip writ-proxy {
//		map services  { ip . proto . port : verdict }           goto to-<k>...
//		map inside    { ip . proto . port : verdict }
//		map closed    { ip . proto . port : verdict }           goto refuse
//		map endpoints { ip . proto . port . index : ip . port }
//		map affinity  { ip . proto . port . ip saddr : ip . port; timeout }
//		set hairpin   { ip . ip }
//		set nodeips   { ip }                                    if node ports answer on some addresses only
//
//		chain to-<k> { [meta mark set mark | 0x4000]
//			dnat to ip daddr . proto . dport . (numgen random mod k) map @endpoints }
//		chain from-inside   { key vmap @inside;   fib daddr local: 0.0.0.0 key vmap @inside }
//		chain from-anywhere { key vmap @services; fib daddr local: 0.0.0.0 key vmap @services }
//		chain prerouting { nat,  dstnat;  ip saddr <pods> jump from-inside; goto from-anywhere }
//		chain output     { nat,  dstnat;  jump from-inside; goto from-anywhere }
//		chain check-*    { filter, dstnat - 10;  ct state new: key vmap @closed, same for local }
//		chain postrouting { nat, srcnat;  mark & 0x4000: masquerade;  ip saddr . ip daddr @hairpin masquerade }
//	}
//
// A node port, or a host port, has the address 0.0.0.0 in the keys. The nft
// program lists the to-<k> chains but cannot read them back in: netlink only.
type nft struct {
	clusterCIDR netip.Prefix
	nodeIPs     []netip.Addr

	mu    sync.Mutex
	conn  *nftables.Conn
	table *nftables.Table
	sets  map[string]*nftables.Set
}

func openNFT(clusterCIDR netip.Prefix, nodeIPs []netip.Addr) (*nft, error) {
	// A transaction of thousands of elements is one message, and each of its
	// operations is acknowledged.
	const buffer = 64 << 20
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffer), c.SetWriteBuffer(buffer))
	}))
	if err != nil {
		return nil, err
	}
	return &nft{
		clusterCIDR: clusterCIDR,
		nodeIPs:     nodeIPs,
		conn:        conn,
		table:       &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName},
		sets:        map[string]*nftables.Set{},
	}, nil
}

// Close ends the connection; the table stays.
func (k *nft) Close() error { return k.conn.CloseLasting() }

// Intact implements Kernel.
func (k *nft) Intact() (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	tables, err := k.conn.ListTablesOfFamily(k.table.Family)
	if err != nil {
		return false, err
	}
	for _, t := range tables {
		if t.Name == tableName {
			chains, err := k.conn.ListChainsOfTableFamily(k.table.Family)
			if err != nil {
				return false, err
			}
			for _, c := range chains {
				if c.Table.Name == tableName && c.Name == "from-anywhere" {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// Replace implements Kernel.
func (k *nft) Replace(ops []Op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conn.AddTable(k.table) // so that there is one to delete
	k.conn.DelTable(k.table)
	k.conn.AddTable(k.table)
	if err := k.addSets(); err != nil {
		return err
	}
	k.addChains()
	return k.apply(ops)
}

// addSets makes the maps, empty.
func (k *nft) addSets() error {
	ip, proto, port := nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService
	vip := nftables.MustConcatSetType(ip, proto, port)
	target := nftables.MustConcatSetType(ip, port)
	sets := []*nftables.Set{
		{Name: string(Services), IsMap: true, Concatenation: true, KeyType: vip, DataType: nftables.TypeVerdict},
		{Name: string(Inside), IsMap: true, Concatenation: true, KeyType: vip, DataType: nftables.TypeVerdict},
		{Name: string(Closed), IsMap: true, Concatenation: true, KeyType: vip, DataType: nftables.TypeVerdict},
		{Name: "endpoints", IsMap: true, Concatenation: true,
			KeyType: nftables.MustConcatSetType(ip, proto, port, nftables.TypeMark), DataType: target},
		{Name: "affinity", IsMap: true, Concatenation: true, Dynamic: true, HasTimeout: true, Size: 1 << 20,
			KeyType: nftables.MustConcatSetType(ip, proto, port, ip), DataType: target},
		{Name: "hairpin", Concatenation: true, KeyType: nftables.MustConcatSetType(ip, ip)},
		{Name: "nodeips", KeyType: ip},
	}
	for i, s := range sets {
		s.Table = k.table
		s.ID = uint32(i + 1)
		k.sets[s.Name] = s
		if err := k.conn.AddSet(s, nil); err != nil {
			return fmt.Errorf("add set %s: %w", s.Name, err)
		}
	}
	var elems []nftables.SetElement
	for _, ip := range k.nodeIPs {
		if ip.Is4() && !ip.IsLoopback() {
			elems = append(elems, nftables.SetElement{Key: ip.AsSlice()})
		}
	}
	if len(elems) == 0 {
		return nil
	}
	elems = append(elems, nftables.SetElement{Key: net.IPv4(127, 0, 0, 1).To4()})
	return k.conn.SetAddElements(k.sets["nodeips"], elems)
}

// addChains makes the chains that every packet passes.
func (k *nft) addChains() {
	refuse := k.chain("refuse")
	k.rule(refuse, matchProto(protoTCP), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
	k.rule(refuse, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: icmpPortUnreachable})

	fromInside := k.lookupChain("from-inside", Inside)
	fromAnywhere := k.lookupChain("from-anywhere", Services)
	pre := k.hook("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	if k.clusterCIDR.IsValid() {
		k.rule(pre, from(expr.CmpOpEq, k.clusterCIDR), jump(fromInside))
	}
	k.rule(pre, jump(fromAnywhere))
	out := k.hook("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	k.rule(out, jump(fromInside))
	k.rule(out, jump(fromAnywhere))

	check := k.lookupChain("check", Closed)
	before := nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest - 10)
	for name, hook := range map[string]*nftables.ChainHook{"check-prerouting": nftables.ChainHookPrerouting, "check-output": nftables.ChainHookOutput} {
		k.rule(k.hook(name, nftables.ChainTypeFilter, hook, before), matchNew(), jump(check))
	}

	post := k.hook("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	k.rule(post, matchMark(masqMark), changeMark(masqMark, false), &expr.Masq{FullyRandom: true})
	k.rule(post, loadAddrs(), &expr.Lookup{SourceRegister: reg32(0), SetName: "hairpin", SetID: k.sets["hairpin"].ID}, &expr.Masq{FullyRandom: true})
}

// lookupChain asks a map for the destination of a packet, as it is and, if it
// is an address of the node, as a node port.
func (k *nft) lookupChain(name string, m Map) *nftables.Chain {
	c := k.chain(name)
	set := k.sets[string(m)]
	verdict := &expr.Lookup{SourceRegister: reg32(0), SetName: set.Name, SetID: set.ID, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true}
	k.rule(c, loadKey(false), verdict)
	here := matchLocal()
	if len(k.nodeIPs) > 0 {
		here = append(loadDest(), &expr.Lookup{SourceRegister: 1, SetName: "nodeips", SetID: k.sets["nodeips"].ID})
	}
	k.rule(c, here, loadKey(true), verdict)
	return c
}

// addShape makes the chain that chooses an endpoint.
func (k *nft) addShape(s Shape) {
	c := k.chain(s.String())
	switch {
	case s.Masq == MasqAll:
		k.rule(c, changeMark(masqMark, true))
	case s.Masq == MasqOutside && k.clusterCIDR.IsValid():
		k.rule(c, from(expr.CmpOpNeq, k.clusterCIDR), changeMark(masqMark, true))
	case s.Masq == MasqLoopback:
		k.rule(c, from(expr.CmpOpEq, loopback), changeMark(masqMark, true))
	}
	eps, aff := k.sets["endpoints"], k.sets["affinity"]
	var offset uint32
	if s.Inside {
		offset = InsideSlot
	}
	choose := []expr.Any{
		&expr.Numgen{Register: reg32(3), Modulus: uint32(s.Endpoints), Type: unix.NFT_NG_RANDOM, Offset: offset},
		&expr.Lookup{SourceRegister: reg32(0), SetName: eps.Name, SetID: eps.ID, DestRegister: reg32(4), IsDestRegSet: true},
	}
	dnat := &expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: reg32(4), RegProtoMin: reg32(5)}
	if s.Affinity == 0 {
		k.rule(c, loadKey(s.NodePort), choose, dnat)
		return
	}
	remember := &expr.Dynset{SrcRegKey: reg32(0), SrcRegData: reg32(4), SetName: aff.Name, SetID: aff.ID,
		Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: s.Affinity}
	k.rule(c, loadKey(s.NodePort), loadSource(reg32(3)),
		&expr.Lookup{SourceRegister: reg32(0), SetName: aff.Name, SetID: aff.ID, DestRegister: reg32(4), IsDestRegSet: true},
		remember, dnat)
	k.rule(c, loadKey(s.NodePort), choose, loadSource(reg32(3)), remember, dnat)
}

func (k *nft) chain(name string) *nftables.Chain {
	return k.conn.AddChain(&nftables.Chain{Name: name, Table: k.table})
}

func (k *nft) hook(name string, t nftables.ChainType, h *nftables.ChainHook, p *nftables.ChainPriority) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return k.conn.AddChain(&nftables.Chain{Name: name, Table: k.table, Type: t, Hooknum: h, Priority: p, Policy: &accept})
}

// rule appends a rule made of expressions and lists of them.
func (k *nft) rule(c *nftables.Chain, parts ...any) {
	var exprs []expr.Any
	for _, p := range parts {
		switch p := p.(type) {
		case []expr.Any:
			exprs = append(exprs, p...)
		case expr.Any:
			exprs = append(exprs, p)
		}
	}
	k.conn.AddRule(&nftables.Rule{Table: k.table, Chain: c, Exprs: exprs})
}
