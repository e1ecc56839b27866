package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestResolvConf(t *testing.T) {
	host := "# made by hand\nsearch corp.example\nnameserver 192.0.2.1\noptions timeout:1\n"
	d := DNS{Servers: []string{"10.96.0.10"}, Domain: "cluster.local"}
	five := "2"
	tests := []struct {
		name string
		pod  func(*corev1.PodSpec)
		dns  DNS
		want string
	}{
		{"cluster first", func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSClusterFirst }, d,
			"search ns.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\noptions ndots:5\n"},
		{"host network falls back", func(s *corev1.PodSpec) { s.DNSPolicy, s.HostNetwork = corev1.DNSClusterFirst, true }, d,
			"search corp.example\nnameserver 192.0.2.1\noptions timeout:1\n"},
		{"with host network", func(s *corev1.PodSpec) { s.DNSPolicy, s.HostNetwork = corev1.DNSClusterFirstWithHostNet, true }, d,
			"search ns.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\noptions ndots:5\n"},
		{"no cluster DNS", func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSClusterFirst }, DNS{}, "search corp.example\nnameserver 192.0.2.1\noptions timeout:1\n"},
		{"none, own config", func(s *corev1.PodSpec) {
			s.DNSPolicy = corev1.DNSNone
			s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"x"}, Options: []corev1.PodDNSConfigOption{{Name: "edns0"}}}
		}, d, "search x\nnameserver 1.1.1.1\noptions edns0\n"},
		{"own config is merged", func(s *corev1.PodSpec) {
			s.DNSPolicy = corev1.DNSClusterFirst
			s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"10.96.0.10", "1.1.1.1"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}}}
		}, d, "search ns.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\nnameserver 1.1.1.1\noptions ndots:2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := aPod("c")
			tt.pod(&p.Spec)
			if got := resolvConf(p, tt.dns, host); got != tt.want {
				t.Errorf("%q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestHostsFile(t *testing.T) {
	p := aPod("c")
	p.Spec.Hostname, p.Spec.Subdomain = "web-0", "web"
	p.Spec.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}}
	got := hostsFile(p, []string{"10.244.0.9"}, "cluster.local", "")
	for _, want := range []string{"127.0.0.1\tlocalhost\n", "10.244.0.9\tweb-0.web.ns.svc.cluster.local\tweb-0\n", "1.2.3.4\ta\tb\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestQOSAndResources(t *testing.T) {
	q := resource.MustParse
	list := func(cpu, mem string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out["cpu"] = q(cpu)
		}
		if mem != "" {
			out["memory"] = q(mem)
		}
		return out
	}
	tests := []struct {
		name     string
		req, lim corev1.ResourceList
		qos      corev1.PodQOSClass
		parent   string
		shares   uint64
		quota    int64
		oom      int
	}{
		{"nothing", nil, nil, corev1.PodQOSBestEffort, "/kubepods/besteffort/podu", 2, 0, 1000},
		{"requests", list("250m", "1Gi"), nil, corev1.PodQOSBurstable, "/kubepods/burstable/podu", 256, 0, 875},
		{"limits only", nil, list("500m", "1Gi"), corev1.PodQOSGuaranteed, "/kubepods/podu", 512, 50000, -997},
		{"equal", list("1", "1Gi"), list("1", "1Gi"), corev1.PodQOSGuaranteed, "/kubepods/podu", 1024, 100000, -997},
		{"more memory than there is", list("", "100Gi"), nil, corev1.PodQOSBurstable, "/kubepods/burstable/podu", 2, 0, 3},
		{"hardly any", list("1m", ""), nil, corev1.PodQOSBurstable, "/kubepods/burstable/podu", 2, 0, 999},
		{"tiny quota", list("1m", "1Mi"), list("1m", "1Mi"), corev1.PodQOSGuaranteed, "/kubepods/podu", 2, 1000, -997},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := aPod("c")
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: tt.req, Limits: tt.lim}
			if got := QOS(p); got != tt.qos {
				t.Errorf("QoS %s, want %s", got, tt.qos)
			}
			if got := CgroupParent("/kubepods", p); got != tt.parent {
				t.Errorf("cgroup %s, want %s", got, tt.parent)
			}
			r := containerResources(p, &p.Spec.Containers[0], 8<<30)
			if r.CPUShares != tt.shares || r.CPUQuota != tt.quota || r.OOMScoreAdj != tt.oom {
				t.Errorf("%+v, want shares %d quota %d oom %d", r, tt.shares, tt.quota, tt.oom)
			}
		})
	}
}

func TestHostnameAsFQDN(t *testing.T) {
	p := aPod("c")
	p.Spec.Hostname, p.Spec.Subdomain = "web", "shop"
	if got := fullHostname(p, ""); got != "web" {
		t.Errorf("not asked for: %s", got)
	}
	p.Spec.SetHostnameAsFQDN = new(true)
	if got := hostnameFor(p, "n1", ""); got != "web.shop.ns.svc.cluster.local" {
		t.Errorf("with the domain: %s", got)
	}
	p.Spec.HostNetwork = true
	if got := hostnameFor(p, "n1", ""); got != "n1" {
		t.Errorf("in the node's network: %s", got)
	}
	if checkHostname(strings.Repeat("x", 64)) != nil || checkHostname(strings.Repeat("x", 65)) == nil {
		t.Error("the kernel's limit is 64 characters")
	}
}
