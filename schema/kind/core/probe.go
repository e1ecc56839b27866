package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// handler is what probes and hooks can do.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func (p *pod) liveness(probe *corev1.Probe, at *field.Path) {
	if probe == nil {
		return
	}
	p.probe(probe, at)
	if probe.SuccessThreshold != 1 {
		p.invalid(at.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
}

func (p *pod) readiness(probe *corev1.Probe, at *field.Path) {
	if probe == nil {
		return
	}
	p.probe(probe, at)
	if s := probe.TerminationGracePeriodSeconds; s != nil {
		p.invalid(at.Child("terminationGracePeriodSeconds"), *s, "must not be set for readinessProbes")
	}
}

func (p *pod) probe(probe *corev1.Probe, at *field.Path) {
	p.handler(handler{exec: probe.Exec, http: probe.HTTPGet, tcp: probe.TCPSocket, grpc: probe.GRPC}, at)
	p.notNegative(at.Child("initialDelaySeconds"), int64(probe.InitialDelaySeconds))
	p.notNegative(at.Child("timeoutSeconds"), int64(probe.TimeoutSeconds))
	p.notNegative(at.Child("periodSeconds"), int64(probe.PeriodSeconds))
	p.notNegative(at.Child("successThreshold"), int64(probe.SuccessThreshold))
	p.notNegative(at.Child("failureThreshold"), int64(probe.FailureThreshold))
	if s := probe.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		p.invalid(at.Child("terminationGracePeriodSeconds"), *s, "must be greater than 0")
	}
}

func (p *pod) lifecycle(l *corev1.Lifecycle, at *field.Path) {
	hook := func(h *corev1.LifecycleHandler, at *field.Path) {
		if h != nil {
			p.handler(handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, at)
		}
	}
	hook(l.PostStart, at.Child("postStart"))
	hook(l.PreStop, at.Child("preStop"))
}

// handler wants one thing to be done.
func (p *pod) handler(h handler, at *field.Path) {
	n := 0
	one := func(name string, set bool, check func(*field.Path)) {
		switch {
		case !set:
		case n > 0:
			p.forbid(at.Child(name), "may not specify more than 1 handler type")
		default:
			n++
			check(at.Child(name))
		}
	}
	one("exec", h.exec != nil, func(at *field.Path) {
		if len(h.exec.Command) == 0 {
			p.required(at.Child("command"), "")
		}
	})
	one("httpGet", h.http != nil, func(at *field.Path) { p.httpGet(h.http, at) })
	one("tcpSocket", h.tcp != nil, func(at *field.Path) { p.port(h.tcp.Port, at.Child("port")) })
	one("grpc", h.grpc != nil, func(at *field.Path) { p.port(intstr.FromInt32(h.grpc.Port), at.Child("port")) })
	one("sleep", h.sleep != nil, func(at *field.Path) {
		if grace := p.spec.TerminationGracePeriodSeconds; grace != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *grace) {
			p.invalid(at, h.sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))
		}
	})
	if n == 0 {
		p.required(at, "must specify a handler type")
	}
}

func (c *check) httpGet(h *corev1.HTTPGetAction, at *field.Path) {
	c.nonEmpty(at.Child("path"), h.Path)
	c.port(h.Port, at.Child("port"))
	oneOf(c, at.Child("scheme"), h.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for _, header := range h.HTTPHeaders {
		c.each(at.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name))
	}
}

// port is a number, or the name of a port of the container.
func (c *check) port(port intstr.IntOrString, at *field.Path) {
	if port.Type == intstr.Int {
		c.each(at, port.IntValue(), validation.IsValidPortNum(port.IntValue()))
		return
	}
	c.each(at, port.StrVal, validation.IsValidPortName(port.StrVal))
}
