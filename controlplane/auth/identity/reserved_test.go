package identity

import "testing"

func TestReservedNode(t *testing.T) {
	for name, reserved := range map[string]bool{
		"kubernetes": true, "kubernetes.default": true, "kubernetes.default.svc": true, "Kubernetes.default.svc.cluster.local.": true, "kube-apiserver": true,
		"localhost": true, "localhost.localdomain": true, "a.localhost": true, "web.shop.svc": true, "web.shop.svc.example.com": true, "a.cluster.local": true,
		"10.96.0.1": true, "127.0.0.1": true, "::1": true,
		"one": false, "kubernetes-1": false, "node.example.com": false, "svc": false, "svc.example.com": false, "10-0-0-1": false,
	} {
		if why := ReservedNode(name); (why != "") != reserved {
			t.Errorf("%s: %q", name, why)
		}
	}
}
