package nodeipam

import (
	"encoding/binary"
	"net/netip"
)

// ranges are the ranges of one size of a cluster, and which of them are in use.
// IPv4 only.
type ranges struct {
	all  netip.Prefix
	bits int
	used map[netip.Prefix]bool // of our size
	odd  []netip.Prefix        // in use, of another size
	from uint32                // there is none free before this one
}

func newRanges(all netip.Prefix, bits int) *ranges {
	return &ranges{all: all, bits: bits, used: map[netip.Prefix]bool{}}
}

// use takes a range out.
func (r *ranges) use(p netip.Prefix) {
	if p.Bits() == r.bits {
		r.used[p.Masked()] = true
	} else {
		r.odd = append(r.odd, p)
	}
}

// free returns the first range that overlaps none in use; false when there is
// none.
func (r *ranges) free() (netip.Prefix, bool) {
	if !r.all.Addr().Is4() || r.bits < r.all.Bits() || r.bits > 32 {
		return netip.Prefix{}, false
	}
	base := binary.BigEndian.Uint32(r.all.Masked().Addr().AsSlice())
	for ; r.from < uint32(1)<<(r.bits-r.all.Bits()); r.from++ {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], base+r.from<<(32-r.bits))
		p := netip.PrefixFrom(netip.AddrFrom4(b), r.bits)
		if !r.used[p] && !r.overlapsOdd(p) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func (r *ranges) overlapsOdd(p netip.Prefix) bool {
	for _, o := range r.odd {
		if o.Overlaps(p) {
			return true
		}
	}
	return false
}
