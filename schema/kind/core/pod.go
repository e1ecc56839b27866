package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nameErrors is what is wrong with a name that is a DNS subdomain, as those of
// most objects are.
func nameErrors(name string, prefix bool) []string {
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// PodErrors are what is wrong with a new pod, besides its metadata.
func PodErrors(o *corev1.Pod) field.ErrorList {
	c := &check{errs: podErrors(o)}
	at := field.NewPath("spec")
	if len(o.Spec.EphemeralContainers) > 0 {
		c.forbid(at.Child("ephemeralContainers"), "cannot be set on create")
	}
	if o.Spec.NodeName != "" && len(o.Spec.SchedulingGates) > 0 {
		c.forbid(at.Child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	}
	c.annotatedProfiles(&o.ObjectMeta, &o.Spec, at)
	return c.errs
}

// podErrors are what is wrong with a pod, new or changed.
func podErrors(o *corev1.Pod) field.ErrorList {
	c := &check{}
	c.podAnnotations(o.Annotations, &o.Spec, field.NewPath("metadata", "annotations"))
	at := field.NewPath("spec")
	c.add(specErrors(&o.Spec, &o.ObjectMeta, at, true)...)
	if o.Spec.ServiceAccountName == "" {
		for i, v := range o.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for j, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil {
					c.forbid(at.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
						"must not be specified when serviceAccountName is not set")
				}
			}
		}
	}
	for i := range o.Spec.Containers {
		c.image(&o.Spec.Containers[i], at.Child("containers").Index(i))
	}
	for i := range o.Spec.InitContainers {
		c.image(&o.Spec.InitContainers[i], at.Child("initContainers").Index(i))
	}
	return c.errs
}

// TemplateErrors are what is wrong with a template of pods at a place.
func TemplateErrors(t *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	c := &check{}
	c.labels(at.Child("labels"), t.Labels)
	c.add(apivalidation.ValidateAnnotations(t.Annotations, at.Child("annotations"))...)
	c.podAnnotations(t.Annotations, &t.Spec, at.Child("annotations"))
	c.add(specErrors(&t.Spec, nil, at.Child("spec"), false)...)
	c.annotatedProfiles(&t.ObjectMeta, &t.Spec, at.Child("spec"))
	if len(t.Spec.EphemeralContainers) > 0 {
		c.forbid(at.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
	return c.errs
}

// specErrors are what is wrong with the spec of a pod. Meta is that of the
// pod, nil in a template.
func specErrors(spec *corev1.PodSpec, meta *metav1.ObjectMeta, at *field.Path, isPod bool) field.ErrorList {
	p := &pod{spec: spec, isPod: isPod, claims: sets.New[string]()}
	if meta != nil {
		p.name = meta.Name
		_, p.mirror = meta.Annotations[corev1.MirrorPodAnnotationKey]
	}
	for _, c := range spec.ResourceClaims {
		if c.Name != "" {
			p.claims.Insert(c.Name)
		}
	}
	if spec.TerminationGracePeriodSeconds == nil {
		p.required(at.Child("terminationGracePeriodSeconds"), "")
	}
	p.podVolumes(at.Child("volumes"))
	p.podClaims(at.Child("resourceClaims"))
	p.containers(at.Child("containers"))
	p.initContainers(at.Child("initContainers"))
	p.ephemeralContainers(at.Child("ephemeralContainers"))
	p.podResources(at.Child("resources"))
	p.hostNetwork(at.Child("containers"))
	wordOf(&p.check, at.Child("restartPolicy"), spec.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	wordOf(&p.check, at.Child("dnsPolicy"), spec.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	p.labels(at.Child("nodeSelector"), spec.NodeSelector)
	p.podSecurity(at.Child("securityContext"))
	p.affinity(spec.Affinity, at.Child("affinity"))
	p.dns(at.Child("dnsConfig"))
	for i, g := range spec.ReadinessGates {
		p.qualified(at.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType))
	}
	p.gates(spec.SchedulingGates, at.Child("schedulingGates"))
	p.spread(spec.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))
	p.hostProcess(at)
	p.hostNamespaces(at)
	p.hostnameOverride(at.Child("hostnameOverride"))
	p.names(at)
	p.os(at)
	p.schedulingGroup(at.Child("schedulingGroup"))
	p.fileRefs(at)
	return p.errs
}

// names checks what the spec refers to by name, and a few small fields between.
func (p *pod) names(at *field.Path) {
	s := p.spec
	name := func(f, value string) {
		if value != "" {
			p.each(at.Child(f), value, nameErrors(value, false))
		}
	}
	name("serviceAccountName", s.ServiceAccountName)
	name("nodeName", s.NodeName)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		p.invalid(at.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	if s.Hostname != "" {
		p.label(at.Child("hostname"), s.Hostname)
	}
	if s.Subdomain != "" {
		p.label(at.Child("subdomain"), s.Subdomain)
	}
	p.tolerations(s.Tolerations, at.Child("tolerations"))
	for i, h := range s.HostAliases {
		at := at.Child("hostAliases").Index(i)
		p.ip(at.Child("ip"), h.IP)
		for j, n := range h.Hostnames {
			p.subdomain(at.Child("hostnames").Index(j), n)
		}
	}
	name("priorityClassName", s.PriorityClassName)
	if s.RuntimeClassName != nil {
		p.each(at.Child("runtimeClassName"), *s.RuntimeClassName, nameErrors(*s.RuntimeClassName, false))
	}
	if s.PreemptionPolicy != nil {
		wordOf(&p.check, at.Child("preemptionPolicy"), *s.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	if s.Overhead != nil {
		p.resources(&corev1.ResourceRequirements{Limits: s.Overhead}, containerResource, nil, at.Child("overhead"))
	}
}

// hostNetwork wants ports to be those of the host, when its network is used.
func (p *pod) hostNetwork(at *field.Path) {
	if !p.spec.HostNetwork {
		return
	}
	for i, ctr := range p.spec.Containers {
		for j, port := range ctr.Ports {
			if (p.isPod || port.HostPort != 0) && port.HostPort != port.ContainerPort {
				p.invalid(at.Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

func (p *pod) hostnameOverride(at *field.Path) {
	h := p.spec.HostnameOverride
	if h == nil {
		return
	}
	if fqdn := p.spec.SetHostnameAsFQDN; fqdn != nil && *fqdn {
		p.forbid(at, "may not be specified when setHostnameAsFQDN is true")
	}
	if p.spec.HostNetwork {
		p.forbid(at, "may not be specified when hostNetwork is true")
	}
	if len(*h) > 64 {
		p.add(field.TooLong(at, "", 64))
	}
	p.subdomain(at, *h)
}

// Limits of what a resolver takes.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

func (p *pod) dns(at *field.Path) {
	d := p.spec.DNSConfig
	if p.spec.DNSPolicy == corev1.DNSNone {
		if d == nil {
			p.required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
			return
		}
		if len(d.Nameservers) == 0 {
			p.required(at.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")
			return
		}
	}
	if d == nil {
		return
	}
	if len(d.Nameservers) > maxNameservers {
		p.invalid(at.Child("nameservers"), d.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers))
	}
	for i, ns := range d.Nameservers {
		p.ip(at.Child("nameservers").Index(i), ns)
	}
	if len(d.Searches) > maxSearches {
		p.invalid(at.Child("searches"), d.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches))
	}
	if len(strings.Join(d.Searches, " ")) > maxSearchChars {
		p.invalid(at.Child("searches"), d.Searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchChars))
	}
	for i, s := range d.Searches {
		if s != "." {
			s = strings.TrimSuffix(s, ".")
			p.each(at.Child("searches").Index(i), s, validation.IsDNS1123SubdomainWithUnderscore(s))
		}
	}
	for i, o := range d.Options {
		if o.Name == "" {
			p.required(at.Child("options").Index(i), "must not be empty")
		}
	}
}

func (p *pod) podClaims(at *field.Path) {
	seen := sets.New[string]()
	for i, c := range p.spec.ResourceClaims {
		at := at.Index(i)
		if p.mirror {
			p.forbid(field.NewPath(""), "static pods do not support resource claims")
			continue
		}
		switch {
		case c.Name == "":
			p.required(at.Child("name"), "")
		case seen.Has(c.Name):
			p.add(field.Duplicate(at.Child("name"), c.Name))
		default:
			p.label(at.Child("name"), c.Name)
			seen.Insert(c.Name)
		}
		claim, template := c.ResourceClaimName, c.ResourceClaimTemplateName
		if claim != nil && template != nil {
			p.invalid(at, Internal(c), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		}
		if claim == nil && template == nil {
			p.invalid(at, Internal(c), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if claim != nil {
			p.each(at.Child("resourceClaimName"), *claim, nameErrors(*claim, false))
		}
		if template != nil {
			p.each(at.Child("resourceClaimTemplateName"), *template, nameErrors(*template, false))
		}
	}
}

func (p *pod) schedulingGroup(at *field.Path) {
	g := p.spec.SchedulingGroup
	if g == nil {
		return
	}
	if g.PodGroupName == nil {
		p.invalid(at.Child("podGroupName"), nil, "must specify one of: `podGroupName`")
		return
	}
	p.each(at.Child("podGroupName"), *g.PodGroupName, nameErrors(*g.PodGroupName, false))
}

// podAnnotations checks the annotations that mean something to pods.
func (c *check) podAnnotations(a map[string]string, spec *corev1.PodSpec, at *field.Path) {
	if v, ok := a[corev1.MirrorPodAnnotationKey]; ok && spec.NodeName == "" {
		c.invalid(at.Key(corev1.MirrorPodAnnotationKey), v, "must set spec.nodeName if mirror pod annotation is set")
	}
	if v, ok := a[corev1.PodDeletionCost]; ok && !deletionCost(v) {
		c.invalid(at.Key(corev1.PodDeletionCost), v, "must be a 32bit integer")
	}
	c.profileAnnotations(a, spec, at)
}

// deletionCost says whether a text is a number without a sign or zeros before
// that it does not need.
func deletionCost(s string) bool {
	if s == "" || s[0] == '+' || s[0] == '0' && s != "0" {
		return false
	}
	_, err := strconv.ParseInt(s, 10, 32)
	return err == nil
}
