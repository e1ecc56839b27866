package core

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pod is one pod spec on its way through the rules.
type pod struct {
	check
	spec    *corev1.PodSpec
	name    string // of the pod; empty in a template
	mirror  bool   // it shows a pod that a node runs by itself
	isPod   bool   // no template
	volumes map[string]corev1.VolumeSource
	claims  sets.Set[string]
}

func (p *pod) hostUsers() bool { return p.spec.HostUsers == nil || *p.spec.HostUsers }

func (p *pod) containers(at *field.Path) {
	if len(p.spec.Containers) == 0 {
		p.required(at, "")
		return
	}
	names := sets.New[string]()
	for i := range p.spec.Containers {
		ctr, at := &p.spec.Containers[i], at.Index(i)
		p.container(ctr, at)
		if names.Has(ctr.Name) {
			p.add(field.Duplicate(at.Child("name"), ctr.Name))
		}
		names.Insert(ctr.Name)
		p.running(ctr, at)
		p.restartPolicy(ctr, at)
	}
	p.hostPorts(p.spec.Containers, at)
}

// running checks what only containers that stay have.
func (p *pod) running(ctr *corev1.Container, at *field.Path) {
	if ctr.Lifecycle != nil {
		p.lifecycle(ctr.Lifecycle, at.Child("lifecycle"))
	}
	p.liveness(ctr.LivenessProbe, at.Child("livenessProbe"))
	p.readiness(ctr.ReadinessProbe, at.Child("readinessProbe"))
	p.liveness(ctr.StartupProbe, at.Child("startupProbe"))
}

func (p *pod) initContainers(at *field.Path) {
	names := sets.New[string]()
	for _, ctr := range p.spec.Containers {
		names.Insert(ctr.Name)
	}
	for i := range p.spec.InitContainers {
		ctr, idx := &p.spec.InitContainers[i], at.Index(i)
		p.container(ctr, idx)
		if ctr.RestartPolicy != nil || len(ctr.RestartPolicyRules) > 0 {
			p.restartPolicy(ctr, idx)
		}
		if names.Has(ctr.Name) {
			p.add(field.Duplicate(idx.Child("name"), ctr.Name))
		} else if ctr.Name != "" {
			names.Insert(ctr.Name)
		}
		p.hostPorts(p.spec.InitContainers[i:i+1], at)
		if restartable(ctr) {
			p.running(ctr, idx)
			continue
		}
		p.ends(ctr, idx)
		for j, r := range ctr.ResizePolicy {
			if r.RestartPolicy == corev1.RestartContainer {
				p.invalid(idx.Child("resizePolicy").Index(j).Child("restartPolicy"), r.RestartPolicy,
					"must not be set to 'RestartContainer' for non-sidecar initContainers")
			}
		}
	}
}

// ends forbids a container that ends what only one that stays can have.
func (p *pod) ends(ctr *corev1.Container, at *field.Path) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", ctr.Lifecycle != nil},
		{"livenessProbe", ctr.LivenessProbe != nil},
		{"readinessProbe", ctr.ReadinessProbe != nil},
		{"startupProbe", ctr.StartupProbe != nil},
	} {
		if f.set {
			p.forbid(at.Child(f.name), "may not be set for init containers without restartPolicy=Always")
		}
	}
}

func restartable(ctr *corev1.Container) bool {
	return ctr.RestartPolicy != nil && *ctr.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// ephemeralFields are what the container of a debugger may have.
var ephemeralFields = sets.New("Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
	"TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY")

const notEphemeral = "cannot be set for an Ephemeral Container"

func (p *pod) ephemeralContainers(at *field.Path) {
	others := sets.New[string]()
	for _, ctr := range slices.Concat(p.spec.Containers, p.spec.InitContainers) {
		others.Insert(ctr.Name)
	}
	names := others.Clone()
	for i, ec := range p.spec.EphemeralContainers {
		at := at.Index(i)
		ctr := corev1.Container(ec.EphemeralContainerCommon)
		p.container(&ctr, at)
		p.image(&ctr, at)
		if names.Has(ec.Name) {
			p.add(field.Duplicate(at.Child("name"), ec.Name))
		}
		names.Insert(ec.Name)
		if ec.TargetContainerName != "" && !others.Has(ec.TargetContainerName) {
			p.add(field.NotFound(at.Child("targetContainerName"), ec.TargetContainerName))
		}
		p.only(ec.EphemeralContainerCommon, ephemeralFields, notEphemeral, at)
		for j, m := range ec.VolumeMounts {
			if m.SubPath != "" {
				p.forbid(at.Child("volumeMounts").Index(j).Child("subPath"), notEphemeral)
			}
			if m.SubPathExpr != "" {
				p.forbid(at.Child("volumeMounts").Index(j).Child("subPathExpr"), notEphemeral)
			}
		}
	}
}

// only forbids the fields of a struct that are set and not allowed.
func (c *check) only(v any, allowed sets.Set[string], detail string, at *field.Path) {
	s := reflect.ValueOf(v)
	for i := range s.NumField() {
		if name := s.Type().Field(i).Name; !allowed.Has(name) && !s.Field(i).IsZero() {
			c.forbid(at.Child(strings.ToLower(name[:1])+name[1:]), detail)
		}
	}
}

// container checks what all containers share.
func (p *pod) container(ctr *corev1.Container, at *field.Path) {
	if ctr.Name == "" {
		p.required(at.Child("name"), "")
	} else {
		p.label(at.Child("name"), ctr.Name)
	}
	p.nonEmpty(at.Child("image"), ctr.Image)
	wordOf(&p.check, at.Child("terminationMessagePolicy"), ctr.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	p.ports(ctr.Ports, at.Child("ports"))
	p.env(ctr.Env, at.Child("env"))
	p.envFrom(ctr.EnvFrom, at.Child("envFrom"))
	p.mounts(ctr, at.Child("volumeMounts"))
	p.devices(ctr, at.Child("volumeDevices"))
	wordOf(&p.check, at.Child("imagePullPolicy"), ctr.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	p.resources(&ctr.Resources, containerResource, p.claims, at.Child("resources"))
	p.resizePolicy(ctr.ResizePolicy, at.Child("resizePolicy"))
	p.securityContext(ctr.SecurityContext, at.Child("securityContext"))
}

// image is what only pods check: templates may have been stored before.
func (c *check) image(ctr *corev1.Container, at *field.Path) {
	if strings.TrimSpace(ctr.Image) != ctr.Image {
		c.invalid(at.Child("image"), ctr.Image, "must not have leading or trailing whitespace")
	}
}

func (c *check) ports(ports []corev1.ContainerPort, at *field.Path) {
	names := sets.New[string]()
	for i, port := range ports {
		idx := at.Index(i)
		if port.Name != "" {
			if msgs := validation.IsValidPortName(port.Name); len(msgs) > 0 {
				c.each(idx.Child("name"), port.Name, msgs)
			} else if names.Has(port.Name) {
				c.add(field.Duplicate(idx.Child("name"), port.Name))
			} else {
				names.Insert(port.Name)
			}
		}
		if port.ContainerPort == 0 {
			c.required(idx.Child("containerPort"), "")
		} else {
			c.each(idx.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort)))
		}
		if port.HostPort != 0 {
			c.each(idx.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort)))
		}
		wordOf(c, idx.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

// hostPorts wants a port of the host to be taken once.
func (c *check) hostPorts(containers []corev1.Container, at *field.Path) {
	taken := sets.New[string]()
	for i, ctr := range containers {
		for j, port := range ctr.Ports {
			if port.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if taken.Has(key) {
				c.add(field.Duplicate(at.Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			taken.Insert(key)
		}
	}
}

func (p *pod) resizePolicy(policies []corev1.ContainerResizePolicy, at *field.Path) {
	seen := sets.New[corev1.ResourceName]()
	for i, r := range policies {
		if seen.Has(r.ResourceName) {
			p.add(field.Duplicate(at.Index(i), r.ResourceName))
		}
		seen.Insert(r.ResourceName)
		wordOf(&p.check, at, r.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		wordOf(&p.check, at, r.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if p.spec.RestartPolicy == corev1.RestartPolicyNever && r.RestartPolicy != corev1.NotRequired {
			p.invalid(at, r.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

func (c *check) restartPolicy(ctr *corev1.Container, at *field.Path) {
	policy, rules := ctr.RestartPolicy, ctr.RestartPolicyRules
	if policy == nil {
		if len(rules) == 0 {
			return
		}
		c.required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")
	} else {
		oneOf(c, at.Child("restartPolicy"), *policy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	}
	if len(rules) > 20 {
		c.add(field.TooMany(at.Child("restartPolicyRules"), len(rules), 20))
	}
	for i, r := range rules {
		at := at.Child("restartPolicyRules").Index(i)
		oneOf(c, at.Child("action"), r.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := at.Child("exitCodes")
		if r.ExitCodes == nil {
			c.required(codes, "must be specified")
			continue
		}
		oneOf(c, codes.Child("operator"), r.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(r.ExitCodes.Values); n > 255 {
			c.add(field.TooMany(codes.Child("values"), n, 255))
		}
	}
}
