package env

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field answers a fieldRef of the downward API.
func Field(s Source, path string) (string, error) {
	if base, ok := strings.CutSuffix(path, "']"); ok {
		if name, key, ok := strings.Cut(base, "['"); ok {
			switch name {
			case "metadata.labels":
				return s.Pod.Labels[key], nil
			case "metadata.annotations":
				return s.Pod.Annotations[key], nil
			}
			return "", fmt.Errorf("fieldPath %q does not support subscript", path)
		}
	}
	switch path {
	case "metadata.name":
		return s.Pod.Name, nil
	case "metadata.namespace":
		return s.Pod.Namespace, nil
	case "metadata.uid":
		return string(s.Pod.UID), nil
	case "metadata.labels":
		return formatMap(s.Pod.Labels), nil
	case "metadata.annotations":
		return formatMap(s.Pod.Annotations), nil
	case "spec.nodeName":
		return s.Pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return s.Pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(s.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(s.HostIPs, ","), nil
	case "status.podIP":
		return first(s.PodIPs), nil
	case "status.podIPs":
		return strings.Join(s.PodIPs, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

func first(ss []string) string {
	if len(ss) == 0 {
		return ""
	}
	return ss[0]
}

// formatMap writes labels as the downward API does: key="value" lines, sorted.
func formatMap(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	lines := make([]string, 0, len(m))
	for _, k := range keys {
		lines = append(lines, fmt.Sprintf("%v=%q", k, m[k]))
	}
	return strings.Join(lines, "\n")
}

// Resource answers a resourceFieldRef. A limit that is not set is what the
// node can give.
func Resource(s Source, ref *corev1.ResourceFieldSelector, container string) (string, error) {
	if ref.ContainerName != "" {
		container = ref.ContainerName
	}
	c := findContainer(s.Pod, container)
	if c == nil {
		return "", fmt.Errorf("container %s not found", container)
	}
	which, name, ok := strings.Cut(ref.Resource, ".")
	list := c.Resources.Requests
	if which == "limits" {
		list = c.Resources.Limits
	}
	known := name == "cpu" || name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if !ok || (which != "limits" && which != "requests") || !known {
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	q, set := list[corev1.ResourceName(name)]
	if !set && which == "limits" {
		q = s.Allocatable[corev1.ResourceName(name)]
	}
	return divide(q, ref.Divisor, name == "cpu"), nil
}

// divide rounds up, as upstream.
func divide(q, by resource.Quantity, milli bool) string {
	if by.IsZero() {
		by = resource.MustParse("1")
	}
	v, d := q.Value(), by.Value()
	if milli {
		v, d = q.MilliValue(), by.MilliValue()
	}
	return strconv.FormatInt((v+d-1)/d, 10)
}

func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
