package table

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Columns of nodes and events.
var _ = register(map[string]func(*Row) any{
	"nodeStatus":        func(r *Row) any { return nodeStatus(r.Object.(*corev1.Node)) },
	"nodeRoles":         func(r *Row) any { return nodeRoles(r.Object.(*corev1.Node)) },
	"nodeInternalIP":    func(r *Row) any { return nodeAddress(r.Object.(*corev1.Node), corev1.NodeInternalIP) },
	"nodeExternalIP":    func(r *Row) any { return nodeAddress(r.Object.(*corev1.Node), corev1.NodeExternalIP) },
	"nodeKernelVersion": func(r *Row) any { return kernelVersion(r.Object.(*corev1.Node)) },

	"eventLastSeen":  func(r *Row) any { return lastSeen(r, r.Object.(*corev1.Event)) },
	"eventFirstSeen": func(r *Row) any { return firstSeen(r, r.Object.(*corev1.Event)) },
	"eventObject":    func(r *Row) any { return eventObject(r.Object.(*corev1.Event)) },
	"eventSource":    func(r *Row) any { return eventSource(r.Object.(*corev1.Event)) },
	"eventMessage":   func(r *Row) any { return strings.TrimSpace(r.Object.(*corev1.Event).Message) },
	"eventCount":     func(r *Row) any { return eventCount(r.Object.(*corev1.Event)) },
})

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(n *corev1.Node) string {
	const prefix, legacy = "node-role.kubernetes.io/", "kubernetes.io/role"
	var roles []string
	for k, v := range n.Labels {
		role, ok := strings.CutPrefix(k, prefix)
		switch {
		case ok && role != "":
			roles = append(roles, role)
		case k == legacy && v != "":
			roles = append(roles, v)
		}
	}
	slices.Sort(roles)
	return orNone(strings.Join(slices.Compact(roles), ","))
}

func nodeAddress(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
}

func kernelVersion(n *corev1.Node) string {
	version := firstOf(n.Status.NodeInfo.KernelVersion, unknown)
	if arch := n.Status.NodeInfo.Architecture; arch != "" {
		version += " (" + arch + ")"
	}
	return version
}

func firstSeen(r *Row, e *corev1.Event) string {
	if e.FirstTimestamp.IsZero() {
		return r.sinceMicro(e.EventTime)
	}
	return r.since(e.FirstTimestamp)
}

func lastSeen(r *Row, e *corev1.Event) string {
	switch {
	case e.Series != nil:
		return r.sinceMicro(e.Series.LastObservedTime)
	case e.LastTimestamp.IsZero():
		return firstSeen(r, e)
	}
	return r.since(e.LastTimestamp)
}

func eventObject(e *corev1.Event) string {
	kind := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name == "" {
		return kind
	}
	return kind + "/" + e.InvolvedObject.Name
}

func eventSource(e *corev1.Event) string {
	component := firstOf(e.Source.Component, e.ReportingController)
	host := firstOf(e.Source.Host, e.ReportingInstance)
	if host == "" {
		return component
	}
	return component + ", " + host
}

func eventCount(e *corev1.Event) int64 {
	count := e.Count
	switch {
	case e.Series != nil:
		count = e.Series.Count
	case count == 0:
		count = 1
	}
	return int64(count)
}
