package validate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/schema"
)

// relation is a fault between two fields, which no definition of one field can
// see: a mount of a volume that is not there. Step by step its path is names
// and indexes.
type relation struct {
	path                []any
	near                []any // where to point to; path if nil
	rule, message, hint string
}

// relations checks what fields say of each other. The object may be malformed:
// what has the wrong type has been said elsewhere, and is passed over here.
//
// Of nearly every object there is nothing to say: where things are is noted the
// second time.
func relations(r *schema.Resource, v any) []relation {
	if len(relationsOf(r, node{value: v})) == 0 {
		return nil
	}
	return relationsOf(r, node{value: v, placed: true})
}

func relationsOf(r *schema.Resource, root node) []relation {
	c := &related{}
	if meta := root.at("metadata", "namespace"); !r.Namespaced && meta.text() != "" {
		c.find(meta, RuleForbidden, "", "must be left out: a %s has no namespace", r.Kind)
	}
	spec := root.at("spec")
	switch r.Kind {
	case "Pod":
		c.pod(spec, nil)
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController":
		c.selector(r.Kind, spec)
		c.pod(spec.at("template", "spec"), spec.at("volumeClaimTemplates").items())
		c.deadline(r.Kind, spec)
	case "Job":
		c.pod(spec.at("template", "spec"), nil)
	case "CronJob":
		c.pod(spec.at("jobTemplate", "spec", "template", "spec"), nil)
	case "Service":
		c.servicePorts(spec.at("type").textOr("ClusterIP"), spec.at("ports"))
	case "EndpointSlice":
		c.unique(root.at("ports").items(), "name")
	case "ConfigMap":
		for _, k := range root.at("binaryData").keys() {
			if d := root.at("data", k); d.value != nil {
				c.find(d, RuleDuplicate, "", "is in binaryData too")
			}
		}
	case "Secret":
		if root.at("type").text() != "kubernetes.io/tls" {
			break
		}
		for _, k := range []string{"tls.crt", "tls.key"} {
			if d := root.at("data", k); d.value == nil && root.at("stringData", k).value == nil {
				c.find(d, RuleRequired, "", "is required in a secret of type kubernetes.io/tls")
			}
		}
	case "Repository":
		c.remote(spec)
	case "NodePool":
		c.nodePool(spec)
	case "HorizontalPodAutoscaler":
		if lo, hi := spec.at("minReplicas"), spec.at("maxReplicas"); lo.int() > hi.int() && hi.value != nil {
			c.find(lo, RuleOutOfRange, "", "must not be more than maxReplicas, %d", hi.int())
		}
	}
	return c.out
}

// related collects relations.
type related struct{ out []relation }

func (c *related) find(n node, rule, hint, format string, a ...any) {
	c.out = append(c.out, relation{path: n.path, rule: rule, message: fmt.Sprintf(format, a...), hint: hint})
}

// selector wants pods of a template to be selected by the owner's selector.
func (c *related) selector(kind string, spec node) {
	template := spec.at("template", "metadata", "labels")
	have := labels.Set{}
	for _, k := range template.keys() {
		have[k] = template.at(k).text()
	}
	sel := spec.at("selector")
	var selector labels.Selector
	if kind == "ReplicationController" {
		set := labels.Set{}
		for _, k := range sel.keys() {
			set[k] = sel.at(k).text()
		}
		selector = labels.SelectorFromSet(set)
	} else {
		if selectsByLabels(sel, have) {
			return
		}
		var ls metav1.LabelSelector
		data, err := json.Marshal(sel.value)
		if err != nil || json.Unmarshal(data, &ls) != nil || sel.value == nil {
			return
		}
		if selector, err = metav1.LabelSelectorAsSelector(&ls); err != nil {
			return
		}
		if selector.Empty() {
			c.find(sel, RuleRequired, "", "must select by at least one label")
			return
		}
	}
	if !selector.Matches(have) {
		c.find(template, RuleInvalid, "", "must match spec.selector, which is %s", selector)
	}
}

// selectsByLabels says whether a selector is labels alone that are all there.
func selectsByLabels(sel node, have labels.Set) bool {
	if all, ok := sel.value.(map[string]any); !ok || len(all) != 1 {
		return false
	}
	want, _ := sel.at("matchLabels").value.(map[string]any)
	for k, v := range want {
		if text, ok := v.(string); !ok || !have.Has(k) || have[k] != text {
			return false
		}
	}
	return len(want) > 0
}

// deadline wants a deployment to be given more time than its pods must be
// ready for.
func (c *related) deadline(kind string, spec node) {
	ready, deadline := spec.at("minReadySeconds").int(), spec.at("progressDeadlineSeconds")
	if kind == "Deployment" && deadline.value != nil && deadline.int() <= ready {
		c.find(deadline, RuleOutOfRange, "", "must be more than minReadySeconds, %d", ready)
	}
}

// servicePorts wants names, and ports of one protocol, once, and node ports
// only where nodes open ports.
func (c *related) servicePorts(typ string, ports node) {
	c.unique(ports.items(), "name")
	seen := map[string]bool{}
	for _, p := range ports.items() {
		key := fmt.Sprint(p.at("protocol").textOr("TCP"), p.at("port").int())
		if seen[key] {
			c.find(p.at("port"), RuleDuplicate, "", "is there twice for this protocol")
		}
		seen[key] = true
		if n := p.at("nodePort"); n.int() != 0 && typ != "NodePort" && typ != "LoadBalancer" {
			c.find(n, RuleForbidden, "", "must be left out when the type is %s", typ)
		}
	}
}

// unique wants a field of items to have a value once.
func (c *related) unique(items []node, field string) {
	seen := map[string]bool{}
	for _, n := range items {
		f := n.at(field)
		s := f.text()
		if s == "" {
			continue
		}
		if seen[s] {
			c.find(f, RuleDuplicate, "", "%q is there twice", s)
		}
		seen[s] = true
	}
}

// remote wants what only the built-in remote does to be asked of no other, and
// a mirror to be there once.
func (c *related) remote(spec node) {
	if url := spec.at("url").text(); url != "" && url != "builtin" {
		for f, who := range map[string]string{"pushes": "who may push is decided by the host that spec.url names", "mirrors": "mirror it where it is"} {
			if n := spec.at(f); len(n.items()) > 0 {
				c.find(n, RuleForbidden, who, "must be left out unless spec.url is builtin")
			}
		}
	}
	seen := map[string]bool{}
	for _, m := range spec.at("mirrors").items() {
		url, direction := m.at("url"), m.at("direction").textOr("Push")
		if key := direction + " " + url.text(); url.text() != "" && seen[key] {
			c.find(url, RuleDuplicate, "", "%q is there twice in the direction %s", url.text(), direction)
		} else {
			seen[key] = true
		}
	}
}

// pod checks the spec of a pod. Claims are the volume claim templates that
// give it volumes too.
func (c *related) pod(spec node, claims []node) {
	volumes := map[string]bool{}
	for _, v := range spec.at("volumes").items() {
		volumes[v.at("name").text()] = true
	}
	for _, v := range claims {
		volumes[v.at("metadata", "name").text()] = true
	}
	c.unique(spec.at("volumes").items(), "name")
	inits, containers := spec.at("initContainers").items(), spec.at("containers").items()
	c.unique(slices.Concat(inits, containers), "name")
	for _, ct := range inits {
		if ct.at("restartPolicy").text() == "Always" {
			continue
		}
		for _, f := range []string{"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
			if n := ct.at(f); n.value != nil {
				c.find(n, RuleForbidden, "", "must be left out: the init container ends, its restartPolicy is not Always")
			}
		}
	}
	hostNetwork := spec.at("hostNetwork").value == true
	for _, ct := range slices.Concat(inits, containers) {
		c.mounts(ct, volumes)
		c.requests(ct.at("resources"))
		c.unique(ct.at("ports").items(), "name")
		for _, p := range ct.at("ports").items() {
			if h := p.at("hostPort"); hostNetwork && h.int() != 0 && h.int() != p.at("containerPort").int() {
				c.find(h, RuleInvalid, "", "must be containerPort, %d, when hostNetwork is true", p.at("containerPort").int())
			}
		}
	}
}

// mounts wants the volumes of mounts to exist, and a path to be used once.
func (c *related) mounts(container node, volumes map[string]bool) {
	mounts := container.at("volumeMounts").items()
	c.unique(mounts, "mountPath")
	for _, m := range slices.Concat(mounts, container.at("volumeDevices").items()) {
		if n := m.at("name"); n.text() != "" && !volumes[n.text()] {
			c.find(n, RuleNotFound, DidYouMean(n.text(), slices.Sorted(maps.Keys(volumes))), "there is no volume %q", n.text())
		}
	}
}

// requests wants no more to be requested than is allowed.
func (c *related) requests(resources node) {
	for _, name := range resources.at("requests").keys() {
		req, lim := resources.at("requests", name), resources.at("limits", name)
		r, err := resource.ParseQuantity(fmt.Sprint(req.value))
		if err != nil {
			continue
		}
		l, err := resource.ParseQuantity(fmt.Sprint(lim.value))
		if err == nil && r.Cmp(l) > 0 {
			// Kubernetes names the list, we point to the entry.
			c.find(resources.at("requests"), RuleOutOfRange, "", "%s must not be more than its limit, %s, is %s", name, l.String(), r.String())
			c.out[len(c.out)-1].near = req.path
		}
	}
}
