package reference

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/reconciler/render"
)

const noPod = "no pod of it is made without"

// pods reads what pods are made of: a template, or a Pod. at is its path, ""
// or with a dot at its end.
func (r *reader) pods(v render.Value, at string) {
	spec := v.Get("spec")
	if !spec.There() {
		return
	}
	p := &Pods{Labels: labels.Set{}}
	for key, text := range v.Get("metadata", "labels").Fields() {
		p.Labels[key] = text.Text()
	}
	r.f.Pods = p
	at += "spec."
	account := "serviceAccountName"
	if spec.Get(account).Text() == "" {
		account = "serviceAccount"
	}
	r.need("ServiceAccount", r.namespace, spec.Get(account), at+account, noPod)
	r.need("PriorityClass", "", spec.Get("priorityClassName"), at+"priorityClassName", noPod)
	r.need("RuntimeClass", "", spec.Get("runtimeClassName"), at+"runtimeClassName", noPod)
	for i, s := range spec.Get("imagePullSecrets").Items() {
		r.need("Secret", r.namespace, s.Get("name"), fmt.Sprintf("%simagePullSecrets[%d].name", at, i), "images are pulled without a password")
	}
	for i, vol := range spec.Get("volumes").Items() {
		r.volume(vol, fmt.Sprintf("%svolumes[%d]", at, i))
	}
	for _, list := range []string{"initContainers", "containers"} {
		for i, c := range spec.Get(list).Items() {
			r.told(c)
			r.container(c, fmt.Sprintf("%s%s[%d]", at, list, i))
			for _, port := range c.Get("ports").Items() {
				if name := port.Get("name").Text(); name != "" {
					p.Ports = append(p.Ports, name)
				}
			}
		}
	}
}

// told gathers what a program is told to make: --secret-name=webhook-tls,
// SECRET_NAME=memberlist. What it makes of that is there once it runs.
func (r *reader) told(c render.Value) {
	add := func(key, value string) {
		key = strings.ToLower(key)
		if value != "" && len(r.f.Makes) < maxMakes && (strings.Contains(key, "secret") || strings.Contains(key, "configmap") || strings.Contains(key, "config-map")) {
			r.f.Makes = append(r.f.Makes, value)
		}
	}
	for _, list := range []string{"command", "args"} {
		before := ""
		for _, a := range c.Get(list).Items() {
			key, value, ok := strings.Cut(a.Text(), "=")
			if !ok {
				key, value = before, a.Text()
			}
			add(key, value)
			before = a.Text()
		}
	}
	for _, e := range c.Get("env").Items() {
		add(e.Get("name").Text(), e.Get("value").Text())
	}
}

// noStart is what becomes of a pod that mounts what is not there.
const noStart = "no pod can start without it"

func (r *reader) volume(v render.Value, at string) {
	r.source("ConfigMap", v.Get("configMap"), "name", at+".configMap").items(v.Get("configMap"), at+".configMap")
	r.source("Secret", v.Get("secret"), "secretName", at+".secret").items(v.Get("secret"), at+".secret")
	r.need("PersistentVolumeClaim", r.namespace, v.Get("persistentVolumeClaim", "claimName"), at+".persistentVolumeClaim.claimName", noStart)
	for i, s := range v.Get("projected", "sources").Items() {
		at := fmt.Sprintf("%s.projected.sources[%d]", at, i)
		r.source("ConfigMap", s.Get("configMap"), "name", at+".configMap").items(s.Get("configMap"), at+".configMap")
		r.source("Secret", s.Get("secret"), "name", at+".secret").items(s.Get("secret"), at+".secret")
	}
}

func (r *reader) container(v render.Value, at string) {
	for i, e := range v.Get("env").Items() {
		at := fmt.Sprintf("%s.env[%d].valueFrom", at, i)
		cm, secret := e.Get("valueFrom", "configMapKeyRef"), e.Get("valueFrom", "secretKeyRef")
		r.source("ConfigMap", cm, "name", at+".configMapKeyRef").key(cm, at+".configMapKeyRef")
		r.source("Secret", secret, "name", at+".secretKeyRef").key(secret, at+".secretKeyRef")
	}
	for i, e := range v.Get("envFrom").Items() {
		at := fmt.Sprintf("%s.envFrom[%d]", at, i)
		r.source("ConfigMap", e.Get("configMapRef"), "name", at+".configMapRef")
		r.source("Secret", e.Get("secretRef"), "name", at+".secretRef")
	}
}

// source notes a ConfigMap or Secret that a pod reads, unless it starts
// without.
func (r *reader) source(kind string, v render.Value, key, at string) *Need {
	if v.Get("optional").Scalar() == "true" {
		return nil
	}
	return r.need(kind, r.namespace, v.Get(key), at+"."+key, noStart)
}
