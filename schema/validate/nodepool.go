package validate

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// nodePool checks what a pool says of its nodes.
func (c *related) nodePool(spec node) {
	c.sysctls(spec.at("sysctls"))
	c.registries(spec.at("selector"), spec.at("registries").items())
	c.disks(spec.at("disks").items())
}

// sysctls refuses what is not a pool's to set, and one parameter by two names.
func (c *related) sysctls(all node) {
	names := map[string]string{}
	for _, name := range all.keys() {
		n, at := all.at(name), v1alpha1.SysctlPath(name)
		if at == "" {
			continue
		}
		if why := v1alpha1.SysctlRefusal(at, n.text()); why != "" {
			c.find(n, RuleForbidden, "", "%s", why)
		}
		if other, ok := names[at]; ok {
			c.find(n, RuleDuplicate, "", "is the same as %s", other)
		}
		names[at] = name
	}
}

// registries wants each host once, certificates that can be read, and secrets
// only where they stay secret: on encrypted ways, and in pools that a node
// cannot join by itself.
func (c *related) registries(selector node, all []node) {
	c.unique(all, "host")
	secret := map[string]bool{}
	for _, r := range all {
		secret[r.at("host").text()] = r.at("secret").text() != ""
	}
	for _, r := range all {
		if ca := r.at("ca"); strings.Contains(ca.text(), "-----BEGIN CERTIFICATE-----") {
			if _, err := v1alpha1.Certificates(ca.text()); err != nil {
				c.find(ca, RuleInvalid, "", "%s", err)
			}
		}
		for _, m := range r.at("mirrors").items() {
			if strings.HasPrefix(m.text(), "http://") && secret[v1alpha1.MirrorHost(m.text())] {
				c.find(m, RuleForbidden, "ask it by https", "would be shown its secret in the clear")
			}
		}
		if s := r.at("secret"); s.text() != "" {
			if free := freeLabels(selector); len(free) > 0 {
				c.find(s, RuleForbidden, "choose them by labels like node-restriction.kubernetes.io/pool or node-role.kubernetes.io/worker",
					"could be read by every node: the pool chooses its nodes by labels that they may give themselves: %s", strings.Join(free, ", "))
			}
		}
	}
}

func freeLabels(selector node) []string {
	var s metav1.LabelSelector
	data, err := json.Marshal(selector.value)
	if err != nil || json.Unmarshal(data, &s) != nil {
		return nil
	}
	return v1alpha1.FreeLabels(&s)
}

// disks wants each disk once, and something said of it.
func (c *related) disks(all []node) {
	c.unique(all, "name")
	for _, d := range all {
		match := d.at("match")
		if _, ok := match.value.(map[string]any); !ok {
			continue
		}
		said := false
		for _, k := range match.keys() {
			said = said || match.at(k).value != nil && fmt.Sprint(match.at(k).value) != ""
		}
		if !said {
			c.find(match, RuleRequired, "", "must say something of the disk: size, model, serial, wwid, path or rotational")
		}
	}
}
