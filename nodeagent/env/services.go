package env

import (
	"net"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// serviceVars returns the variables of the services that a pod sees: those of
// its namespace unless it does not want them, and always kubernetes of the
// default namespace.
func serviceVars(s Source) []Var {
	links := s.Pod.Spec.EnableServiceLinks == nil || *s.Pod.Spec.EnableServiceLinks
	byName := map[string]*corev1.Service{}
	for _, svc := range s.Services {
		if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone || len(svc.Spec.Ports) == 0 {
			continue
		}
		_, taken := byName[svc.Name]
		switch {
		case svc.Namespace == s.Pod.Namespace && links:
			byName[svc.Name] = svc
		case svc.Namespace == "default" && svc.Name == "kubernetes" && !taken:
			byName[svc.Name] = svc
		}
	}
	names := make([]string, 0, len(byName))
	for n := range byName {
		names = append(names, n)
	}
	sort.Strings(names)
	var out []Var
	for _, n := range names {
		out = append(out, varsOf(byName[n])...)
	}
	return out
}

// varsOf returns Kubernetes' own variables of a service, then those that
// Docker links had.
func varsOf(svc *corev1.Service) []Var {
	prefix, ip := varName(svc.Name), svc.Spec.ClusterIP
	out := []Var{
		{prefix + "_SERVICE_HOST", ip},
		{prefix + "_SERVICE_PORT", port(&svc.Spec.Ports[0])},
	}
	for i := range svc.Spec.Ports {
		if p := &svc.Spec.Ports[i]; p.Name != "" {
			out = append(out, Var{prefix + "_SERVICE_PORT_" + varName(p.Name), port(p)})
		}
	}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		proto := strings.ToLower(string(p.Protocol))
		if proto == "" {
			proto = "tcp"
		}
		url := proto + "://" + net.JoinHostPort(ip, port(p))
		if i == 0 {
			out = append(out, Var{prefix + "_PORT", url})
		}
		name := prefix + "_PORT_" + port(p) + "_" + strings.ToUpper(proto)
		out = append(out, Var{name, url}, Var{name + "_PROTO", proto}, Var{name + "_PORT", port(p)}, Var{name + "_ADDR", ip})
	}
	return out
}

func port(p *corev1.ServicePort) string { return strconv.Itoa(int(p.Port)) }

func varName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
