package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The names of resources without a domain.
var (
	containerResources = sets.New(corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage)
	countResources     = sets.New(corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers)
	quotaResources = containerResources.Union(countResources).Insert(
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage)
	standardResources = quotaResources.Clone().Insert(corev1.ResourceStorage)
)

func hugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func quotaHugePage(name corev1.ResourceName) bool {
	return hugePage(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// overcommitted says that limits may be above what is requested.
func overcommitted(name corev1.ResourceName) bool { return native(name) && !hugePage(name) }

func extended(name corev1.ResourceName) bool {
	return !native(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

func domainless(name corev1.ResourceName) bool { return !strings.Contains(string(name), "/") }

// resourceName checks the name of any resource, and says whether it is one.
func resourceName(c *check, name corev1.ResourceName, at *field.Path) bool {
	if msgs := validation.IsQualifiedName(string(name)); len(msgs) > 0 {
		c.each(at, name, msgs)
		return false
	}
	if domainless(name) && !standardResources.Has(name) && !quotaHugePage(name) {
		c.invalid(at, name, "must be a standard resource type or fully qualified")
		return false
	}
	return true
}

func containerResource(c *check, name corev1.ResourceName, at *field.Path) {
	resourceName(c, name, at)
	switch {
	case domainless(name):
		if !containerResources.Has(name) && !hugePage(name) {
			c.invalid(at, name, "must be a standard resource for containers")
		}
	case !native(name) && !extended(name):
		c.invalid(at, name, "doesn't follow extended resource name standard")
	}
}

func podResource(c *check, name corev1.ResourceName, at *field.Path) {
	if resourceName(c, name, at) && !resourcehelper.IsSupportedPodLevelResource(name) {
		c.add(field.NotSupported(at, name, sets.List(resourcehelper.SupportedPodLevelResources())))
	}
}

func quotaResource(c *check, name corev1.ResourceName, at *field.Path) {
	resourceName(c, name, at)
	if domainless(name) && !quotaResources.Has(name) && !quotaHugePage(name) {
		c.invalid(at, name, "must be a standard resource for quota")
	}
}

// quantity is so much of a resource.
func (c *check) quantity(name corev1.ResourceName, q resource.Quantity, at *field.Path) {
	c.notNegativeQuantity(at, q)
	if (countResources.Has(name) || extended(name)) && q.MilliValue()%1000 != 0 {
		c.invalid(at, q, notInteger)
	}
}

// pages wants a whole number of pages.
func (c *check) pages(name corev1.ResourceName, q resource.Quantity, at *field.Path) {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 || q.Value()%size.Value() != 0 {
		c.invalid(at, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))
	}
}

type nameCheck func(*check, corev1.ResourceName, *field.Path)

func (c *check) resources(r *corev1.ResourceRequirements, name nameCheck, claims sets.Set[string], at *field.Path) {
	compute, huge := false, false
	for _, n := range sorted(r.Limits) {
		q, at := r.Limits[n], at.Child("limits").Key(string(n))
		name(c, n, at)
		c.quantity(n, q, at)
		if hugePage(n) {
			huge = true
			c.pages(n, q, at)
		}
		compute = compute || n == corev1.ResourceCPU || n == corev1.ResourceMemory
	}
	for _, n := range sorted(r.Requests) {
		q, idx := r.Requests[n], at.Child("requests").Key(string(n))
		name(c, n, idx)
		c.quantity(n, q, idx)
		limit, limited := r.Limits[n]
		switch {
		case limited && q.Cmp(limit) != 0 && !overcommitted(n):
			c.invalid(at.Child("requests"), q.String(), fmt.Sprintf("must be equal to %s limit of %s", n, limit.String()))
		case limited && q.Cmp(limit) > 0:
			c.invalid(at.Child("requests"), q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", n, limit.String()))
		case !limited && !overcommitted(n):
			c.required(at.Child("limits"), "Limit must be set for non overcommitable resources")
		}
		if hugePage(n) {
			huge = true
			c.pages(n, q, idx)
		}
		compute = compute || n == corev1.ResourceCPU || n == corev1.ResourceMemory
	}
	if huge && !compute {
		c.forbid(at, "HugePages require cpu or memory")
	}
	c.resourceClaims(r.Claims, claims, at.Child("claims"))
}

func (c *check) resourceClaims(list []corev1.ResourceClaim, known sets.Set[string], at *field.Path) {
	seen := sets.New[string]()
	for i, claim := range list {
		at := at.Index(i)
		if claim.Name == "" {
			c.required(at, "")
			continue
		}
		c.claimOnce(claim, seen, at)
		if known.Has(claim.Name) {
			continue
		}
		err := field.NotFound(at, claim.Name)
		err.Detail = "must be one of the names in pod.spec.resourceClaims"
		if len(known) == 0 {
			err.Detail += " which is empty"
		} else {
			err.Detail += ": " + strings.Join(sets.List(known), ", ")
		}
		c.add(err)
	}
}

// claimOnce wants a claim, or each of its requests, to be named once.
func (c *check) claimOnce(claim corev1.ResourceClaim, seen sets.Set[string], at *field.Path) {
	if seen.Has(claim.Name) {
		c.add(field.Duplicate(at, claim.Name))
		return
	}
	key := claim.Name
	if claim.Request != "" {
		c.label(at.Child("request"), claim.Request)
		key += "/" + claim.Request
	}
	if seen.Has(key) {
		c.add(field.Duplicate(at, key))
	} else if claim.Request == "" {
		for other := range seen {
			if name, _, ok := strings.Cut(other, "/"); ok && name == claim.Name {
				c.add(field.Duplicate(at, claim.Name))
			}
		}
	}
	seen.Insert(key)
}

// podResources are those of the pod as a whole.
func (p *pod) podResources(at *field.Path) {
	r := p.spec.Resources
	if r == nil {
		return
	}
	if p.spec.OS != nil && p.spec.OS.Name == corev1.Windows {
		p.forbid(at, "may not be set for a windows pod")
		return
	}
	if r.Claims != nil {
		p.forbid(at.Child("claims"), "claims may not be set for Resources at pod-level")
	}
	p.resources(r, podResource, p.claims, at)
	whole := &corev1.Pod{Spec: *p.spec}
	asked := resourcehelper.AggregateContainerRequests(whole, resourcehelper.PodResourcesOptions{})
	for _, n := range sorted(asked) {
		sum := asked[n]
		if has, ok := r.Requests[n]; ok && sum.Cmp(has) > 0 {
			p.invalid(at.Child("requests").Key(string(n)), has.String(), "must be greater than or equal to aggregate container requests of "+sum.String())
		}
	}
	limits := resourcehelper.AggregateContainerLimits(whole, resourcehelper.PodResourcesOptions{})
	for _, n := range sorted(limits) {
		sum := limits[n]
		if has, ok := r.Limits[n]; ok && hugePage(n) && sum.Cmp(has) > 0 {
			p.invalid(at.Child("limits").Key(string(n)), has.String(), "must be greater than or equal to aggregate container limits of "+sum.String())
		}
	}
	for i := range p.spec.Containers {
		limits := p.spec.Containers[i].Resources.Limits
		for _, n := range sorted(limits) {
			limit := limits[n]
			if has, ok := r.Limits[n]; ok && limit.Cmp(has) > 0 {
				p.invalid(at.Child("containers").Index(i).Key(string(n)).Child("limits"), limit.String(), "must be less than or equal to pod limits of "+has.String())
			}
		}
	}
}
