package cluster

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/writ-os/writ/controlplane/controllers/nodeipam"
)

func TestCheckClusterCIDR(t *testing.T) {
	for _, c := range []struct {
		cidr string
		mask int
		want string // part of the error; "" for none
	}{
		{"10.244.0.0/14", 24, ""},
		{"10.244.0.0/16", 24, ""}, // the default of before
		{"172.20.0.0/16", 26, ""},
		{"10.244.1.0/16", 24, "did you mean 10.244.0.0/16"},
		{"fd00::/48", 64, "must be an IPv4 range"},
		{"10.244.0.0/16", 15, "must be from 16"},
		{"10.244.0.0/16", 30, "to 29"},
		{"10.0.0.0/8", 24, "overlaps the range of services"},
	} {
		err := CheckClusterCIDR(netip.MustParsePrefix(c.cidr), c.mask)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in /%d: %v, want %q", c.cidr, c.mask, err, c.want)
		}
	}
	if old := netip.MustParsePrefix("10.244.0.0/16"); !nodeipam.DefaultPodCIDR.Contains(old.Addr()) || (Config{}).podCIDR() != nodeipam.DefaultPodCIDR || (Config{}).firstGateway() != netip.MustParseAddr("10.244.0.1") {
		t.Errorf("the default %s does not begin as before", nodeipam.DefaultPodCIDR)
	}
}
