package nodeipam

import (
	"encoding/binary"
	"net/netip"
)

// free returns the first range of the given size that overlaps none in use;
// false when there is none. IPv4 only.
func free(all netip.Prefix, bits int, used map[netip.Prefix]bool) (netip.Prefix, bool) {
	if !all.Addr().Is4() || bits < all.Bits() || bits > 32 {
		return netip.Prefix{}, false
	}
	base := binary.BigEndian.Uint32(all.Masked().Addr().AsSlice())
	for i := range uint32(1) << (bits - all.Bits()) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], base+i<<(32-bits))
		p := netip.PrefixFrom(netip.AddrFrom4(b), bits)
		if !overlaps(p, used) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func overlaps(p netip.Prefix, used map[netip.Prefix]bool) bool {
	if used[p] {
		return true
	}
	for u := range used {
		if u.Bits() != p.Bits() && u.Overlaps(p) {
			return true
		}
	}
	return false
}
