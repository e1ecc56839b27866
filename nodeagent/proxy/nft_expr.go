package proxy

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const icmpPortUnreachable = 3

// reg32 is the i-th of the kernel's sixteen 32-bit registers. A key of several
// fields lies in consecutive ones.
func reg32(i uint32) uint32 { return unix.NFT_REG32_00 + i }

// Offsets of the addresses in an IPv4 header.
const (
	ipSrc = 12
	ipDst = 16
)

func field(offset, register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

// loadKey loads destination address, protocol and port into registers 0 to 2.
func loadKey(nodePort bool) []expr.Any {
	addr := field(ipDst, reg32(0))
	if nodePort {
		addr = &expr.Immediate{Register: reg32(0), Data: make([]byte, 4)}
	}
	return []expr.Any{
		addr,
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg32(1)},
		&expr.Payload{DestRegister: reg32(2), Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	}
}

func loadDest() []expr.Any                  { return []expr.Any{field(ipDst, 1)} }
func loadSource(register uint32) []expr.Any { return []expr.Any{field(ipSrc, register)} }

// loadAddrs loads source and destination address into registers 0 and 1.
func loadAddrs() []expr.Any {
	return []expr.Any{field(ipSrc, reg32(0)), field(ipDst, reg32(1))}
}

func matchProto(proto byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
	}
}

// matchNew matches the first packet of a connection.
func matchNew() []expr.Any {
	return append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: 1}}, matchBits(expr.CtStateBitNEW)...)
}

func matchMark(bit uint32) []expr.Any {
	return append([]expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}}, matchBits(bit)...)
}

func matchBits(bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(bits), Xor: native(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native(0)},
	}
}

// changeMark sets or clears one bit of the packet mark.
func changeMark(bit uint32, on bool) []expr.Any {
	xor := uint32(0)
	if on {
		xor = bit
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(^bit), Xor: native(xor)},
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true},
	}
}

// matchLocal matches packets for an address of the node.
func matchLocal() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: native(unix.RTN_LOCAL)},
	}
}

// from compares the source address with a range.
func from(op expr.CmpOp, addrs netip.Prefix) []expr.Any {
	addrs = addrs.Masked()
	return []expr.Any{
		field(ipSrc, 1),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: net.CIDRMask(addrs.Bits(), 32), Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: addrs.Addr().AsSlice()},
	}
}

func jump(c *nftables.Chain) expr.Any { return &expr.Verdict{Kind: expr.VerdictJump, Chain: c.Name} }

func native(v uint32) []byte { return binaryutil.NativeEndian.PutUint32(v) }

// The bytes of keys and values: every field is padded to four bytes.

func vipKey(v VIP) []byte {
	key := make([]byte, 12, 16)
	copy(key, v.Addr.AsSlice())
	key[4] = v.Proto
	binary.BigEndian.PutUint16(key[8:], v.Port)
	return key
}

func slotKey(s Slot) []byte { return append(vipKey(s.VIP), native(s.Index)...) }

func target(ep netip.AddrPort) []byte {
	data := make([]byte, 8)
	copy(data, ep.Addr().AsSlice())
	binary.BigEndian.PutUint16(data[4:], ep.Port())
	return data
}
