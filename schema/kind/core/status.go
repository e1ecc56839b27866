package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// PodStatusErrors are what is wrong with a change through the door of the
// status.
func PodStatusErrors(o, old *corev1.Pod) field.ErrorList {
	c, at := &check{}, field.NewPath("status")
	c.annotationUpdates(o, old)
	c.podAnnotations(o.Annotations, &o.Spec, field.NewPath("metadata", "annotations"))
	for i, cond := range o.Status.Conditions {
		at := at.Child("conditions").Index(i)
		if cond.ObservedGeneration < 0 {
			c.invalid(at.Child("observedGeneration"), cond.ObservedGeneration, "must be a non-negative integer")
		}
		if cond.Type != corev1.PodScheduled && cond.Type != corev1.PodReady && cond.Type != corev1.PodInitialized {
			c.qualified(at.Child("Type"), string(cond.Type))
		}
	}
	if n := o.Status.NominatedNodeName; n != "" && n != old.Status.NominatedNodeName {
		c.each(at.Child("nominatedNodeName"), n, nameErrors(n, false))
		if old.Spec.NodeName != "" {
			c.forbid(at.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node")
		}
	}
	if g := o.Status.ObservedGeneration; g < 0 {
		c.invalid(at.Child("observedGeneration"), g, "must be a non-negative integer")
	}
	c.add(apivalidation.ValidateImmutableField(o.Status.QOSClass, old.Status.QOSClass, at.Child("qosClass"))...)
	c.restarts(o.Status.ContainerStatuses, old.Status.ContainerStatuses, &old.Spec, old.Spec.Containers, at.Child("containerStatuses"))
	c.ended(o.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, at.Child("ephemeralContainerStatuses"))
	c.claimStatuses(o, at.Child("resourceClaimStatuses"))

	var was []string
	for _, ip := range old.Status.PodIPs {
		was = append(was, ip.IP)
	}
	var ips []string
	for _, ip := range o.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	c.ips(ips, was, Internal(o.Status.PodIPs), at.Child("podIPs"))
	if list := o.Status.HostIPs; len(list) > 0 && o.Status.HostIP != list[0].IP {
		c.invalid(at.Child("hostIPs").Index(0).Child("ip"), list[0].IP, "must be equal to `hostIP`")
	}
	ips, was = nil, nil
	for _, ip := range old.Status.HostIPs {
		was = append(was, ip.IP)
	}
	for _, ip := range o.Status.HostIPs {
		ips = append(ips, ip.IP)
	}
	c.ips(ips, was, Internal(o.Status.HostIPs), at.Child("hostIPs"))
	return c.errs
}

// ips are addresses, at most one of each family.
func (c *check) ips(ips, was []string, shown any, at *field.Path) {
	for i, ip := range ips {
		c.ip(at.Index(i), ip, was...)
	}
	if len(ips) < 2 {
		return
	}
	dual, err := netutils.IsDualStackIPStrings(ips)
	if err != nil {
		c.add(field.InternalError(at, fmt.Errorf("failed to check for dual stack with error:%w", err)))
	}
	if !dual || len(ips) > 2 {
		c.invalid(at, shown, "may specify no more than one IP for each IP family")
	}
}

// restarts forbids containers that have ended to run again, where nothing says
// that they may.
func (c *check) restarts(is, was []corev1.ContainerStatus, spec *corev1.PodSpec, containers []corev1.Container, at *field.Path) {
	for i, old := range was {
		end := old.State.Terminated
		if end == nil || anyRestartsAll(containers) {
			continue
		}
		for _, s := range is {
			if s.Name == old.Name && s.State.Terminated == nil && !mayRestart(containers, old.Name, spec.RestartPolicy, end.ExitCode) {
				c.forbid(at.Index(i).Child("state"), "may not be transitioned to non-terminated state")
				break
			}
		}
	}
}

func anyRestartsAll(containers []corev1.Container) bool {
	for _, ctr := range containers {
		for _, r := range ctr.RestartPolicyRules {
			if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// mayRestart applies the rules of a container, then its policy, then that of
// the pod (KEP-5307).
func mayRestart(containers []corev1.Container, name string, pod corev1.RestartPolicy, exit int32) bool {
	policy := string(pod)
	for _, ctr := range containers {
		if ctr.Name != name {
			continue
		}
		for _, r := range ctr.RestartPolicyRules {
			if r.ExitCodes == nil {
				continue
			}
			in := sets.New(r.ExitCodes.Values...).Has(exit)
			if in == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				return true
			}
		}
		if ctr.RestartPolicy != nil {
			policy = string(*ctr.RestartPolicy)
		}
	}
	switch policy {
	case string(corev1.RestartPolicyAlways):
		return true
	case string(corev1.RestartPolicyOnFailure):
		return exit != 0
	}
	return false
}

// ended forbids what never restarts to run again.
func (c *check) ended(is, was []corev1.ContainerStatus, at *field.Path) {
	for i, old := range was {
		for _, s := range is {
			if old.State.Terminated != nil && s.Name == old.Name && s.State.Terminated == nil {
				c.forbid(at.Index(i).Child("state"), "may not be transitioned to non-terminated state")
			}
		}
	}
}

func (c *check) claimStatuses(o *corev1.Pod, at *field.Path) {
	known, seen := sets.New[string](), sets.New[string]()
	for _, claim := range o.Spec.ResourceClaims {
		known.Insert(claim.Name)
	}
	for i, s := range o.Status.ResourceClaimStatuses {
		at := at.Index(i)
		if !known.Has(s.Name) {
			c.invalid(at.Child("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`")
		}
		if seen.Has(s.Name) {
			c.add(field.Duplicate(at.Child("name"), s.Name))
		}
		seen.Insert(s.Name)
		if s.ResourceClaimName != nil {
			c.each(at.Child("resourceClaimName"), *s.ResourceClaimName, nameErrors(*s.ResourceClaimName, false))
		}
	}
}
