package podstandard

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/policy"
)

// places are the fields that each check looks at, below the spec of a pod; one
// that ends in [] is an item of a list. "containers[]" stands for init
// containers and ephemeral ones too. A test wants a row for every check of the
// library.
var places = map[policy.CheckID][]string{
	"allowPrivilegeEscalation": {"containers[].securityContext.allowPrivilegeEscalation"},
	"appArmorProfile":          {"securityContext.appArmorProfile.type", "containers[].securityContext.appArmorProfile.type"},
	"capabilities_baseline":    {"containers[].securityContext.capabilities.add[]"},
	"capabilities_restricted":  {"containers[].securityContext.capabilities.add[]", "containers[].securityContext.capabilities.drop"},
	"hostNamespaces":           {"hostNetwork", "hostPID", "hostIPC"},
	"hostPathVolumes":          {"volumes[].hostPath"},
	"hostPorts":                {"containers[].ports[].hostPort"},
	"hostProbesAndHostLifecycle": {
		"containers[].livenessProbe.httpGet.host", "containers[].livenessProbe.tcpSocket.host",
		"containers[].readinessProbe.httpGet.host", "containers[].readinessProbe.tcpSocket.host",
		"containers[].startupProbe.httpGet.host", "containers[].startupProbe.tcpSocket.host",
		"containers[].lifecycle.postStart.httpGet.host", "containers[].lifecycle.postStart.tcpSocket.host",
		"containers[].lifecycle.preStop.httpGet.host", "containers[].lifecycle.preStop.tcpSocket.host",
	},
	"privileged":                {"containers[].securityContext.privileged"},
	"procMount":                 {"containers[].securityContext.procMount"},
	"procMount_restricted":      {"containers[].securityContext.procMount"},
	"restrictedVolumes":         {"volumes[]"},
	"runAsNonRoot":              {"securityContext.runAsNonRoot", "containers[].securityContext.runAsNonRoot"},
	"runAsUser":                 {"securityContext.runAsUser", "containers[].securityContext.runAsUser"},
	"seLinuxOptions":            seLinux(),
	"seccompProfile_baseline":   {"securityContext.seccompProfile.type", "containers[].securityContext.seccompProfile.type"},
	"seccompProfile_restricted": {"securityContext.seccompProfile.type", "containers[].securityContext.seccompProfile.type"},
	"sysctls":                   {"securityContext.sysctls[]"},
	"windowsHostProcess":        {"securityContext.windowsOptions.hostProcess", "containers[].securityContext.windowsOptions.hostProcess"},
}

func seLinux() (out []string) {
	for _, f := range []string{"type", "user", "role"} {
		out = append(out, "securityContext.seLinuxOptions."+f, "containers[].securityContext.seLinuxOptions."+f)
	}
	return out
}

// kinds are the lists of containers of a pod.
var kinds = []string{"initContainers", "containers", "ephemeralContainers"}

// innocent is a pod that every level allows.
const innocent = `{"containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
	"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}`

// violations finds the fields by which a pod breaks a check: each is put into a
// pod that is innocent otherwise, and the check is asked of that. What a
// container lacks is found by asking of each container alone. all is what the
// check says of the whole pod.
func (c *versioned) violations(spec *corev1.PodSpec, all policy.CheckResult) []Violation {
	data, err := json.Marshal(spec)
	whole := map[string]any{}
	if err != nil || json.Unmarshal(data, &whole) != nil {
		return []Violation{c.violation(nil, all)} // does not happen to a decoded pod
	}
	var out []Violation
	for _, pattern := range places[c.id] {
		for _, at := range expand(whole, strings.Split(pattern, "."), nil) {
			if r := c.ask(whole, at); !r.Allowed {
				out = append(out, c.violation(at, r))
			}
		}
	}
	if pods := slices.ContainsFunc(out, func(v Violation) bool { return !strings.Contains(v.Path.String(), "ontainers[") }); !pods {
		out = append(out, c.lacks(whole, out)...)
	}
	if len(out) == 0 {
		out = append(out, c.violation(nil, all))
	}
	return out
}

// lacks are the containers that break a check by what they do not say, when
// what is known to break it is taken out.
func (c *versioned) lacks(whole map[string]any, known []Violation) (out []Violation) {
	rest := runtime.DeepCopyJSON(whole)
	for i := range known {
		remove(rest, known[i].at)
	}
	rest, _ = compact(rest).(map[string]any)
	for _, at := range expand(rest, []string{"containers[]"}, nil) {
		r := c.ask(rest, at)
		if r.Allowed {
			continue
		}
		v := c.violation(append(at, lastOf(places[c.id])...), r)
		if !slices.ContainsFunc(known, func(k Violation) bool { return k.Path.String() == v.Path.String() }) {
			out = append(out, v)
		}
	}
	return out
}

// compact takes the items out of lists that are nothing.
func compact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = compact(v[k])
		}
	case []any:
		v = slices.DeleteFunc(v, func(item any) bool { return item == nil })
		for i := range v {
			v[i] = compact(v[i])
		}
		return v
	}
	return v
}

// remove takes out what is at a path; of a list the item becomes nothing, so
// that the others keep their places until compact.
func remove(v map[string]any, at []any) {
	switch in := get(v, at[:len(at)-1]).(type) {
	case map[string]any:
		delete(in, at[len(at)-1].(string))
	case []any:
		in[at[len(at)-1].(int)] = nil
	}
}

// lastOf is the field of a container that the last pattern names.
func lastOf(patterns []string) (out []any) {
	if len(patterns) == 0 {
		return nil
	}
	rest, ok := strings.CutPrefix(patterns[len(patterns)-1], "containers[].")
	if !ok {
		return nil
	}
	for step := range strings.SplitSeq(rest, ".") {
		out = append(out, strings.TrimSuffix(step, "[]"))
	}
	return out
}

func (c *versioned) violation(at []any, r policy.CheckResult) Violation {
	return Violation{Check: string(c.id), Path: pathOf(at), at: at, Reason: r.ForbiddenReason, Detail: r.ForbiddenDetail}
}

// ask asks the check of a pod that has of whole only what is at a path. A list
// has that one item; of a container its name comes along, and of the pod what
// other fields are judged by.
func (c *versioned) ask(whole map[string]any, at []any) policy.CheckResult {
	pod := map[string]any{}
	_ = json.Unmarshal([]byte(innocent), &pod) // a constant
	for _, name := range []string{"os", "hostUsers"} {
		if v, ok := whole[name]; ok {
			pod[name] = v
		}
	}
	if len(at) == 2 && isIndex(at[1]) && slices.Contains(kinds, at[0].(string)) { // a container as it is, with the pod's own context
		pod["securityContext"] = whole["securityContext"]
		pod[at[0].(string)] = []any{get(whole, at)}
		if at[0] != "containers" {
			pod["containers"] = nil
		}
	} else {
		put(pod, whole, at)
	}
	spec := &corev1.PodSpec{}
	data, err := json.Marshal(pod)
	if err != nil || json.Unmarshal(data, spec) != nil {
		return policy.CheckResult{Allowed: true}
	}
	return c.check(&metav1.ObjectMeta{}, spec)
}

// put copies what is at a path of from to the same path of to.
func put(to map[string]any, from any, at []any) {
	name := at[0].(string)
	value, _ := from.(map[string]any)
	switch {
	case len(at) == 1:
		to[name] = value[name]
	case isIndex(at[1]):
		item := value[name].([]any)[at[1].(int)]
		if len(at) > 2 {
			one := map[string]any{}
			if have, ok := to[name].([]any); ok && len(have) > 0 {
				one, _ = have[0].(map[string]any)
			}
			if m, ok := item.(map[string]any); ok && m["name"] != nil {
				one["name"] = m["name"]
			}
			put(one, item, at[2:])
			item = one
		}
		to[name] = []any{item}
	default:
		next, ok := to[name].(map[string]any)
		if !ok {
			next = map[string]any{}
		}
		put(next, value[name], at[1:])
		to[name] = next
	}
}

func get(v any, at []any) any {
	for _, step := range at {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			v = v.([]any)[s]
		}
	}
	return v
}

func isIndex(step any) bool { _, ok := step.(int); return ok }

// expand lists the paths of v that a pattern names and that are there.
func expand(v any, pattern []string, at []any) (out [][]any) {
	if len(pattern) == 0 {
		return [][]any{slices.Clone(at)}
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	name, isList := strings.CutSuffix(pattern[0], "[]")
	names := []string{name}
	if name == "containers" && isList && len(at) == 0 {
		names = kinds
	}
	for _, name := range names {
		next, ok := m[name]
		items, list := next.([]any)
		switch {
		case !ok:
		case !isList:
			out = append(out, expand(next, pattern[1:], append(at, name))...)
		case list:
			for i := range items {
				out = append(out, expand(items[i], pattern[1:], append(at, name, i))...)
			}
		}
	}
	return out
}

func pathOf(at []any) (p *field.Path) {
	for _, step := range at {
		switch s := step.(type) {
		case string:
			if p == nil {
				p = field.NewPath(s)
			} else {
				p = p.Child(s)
			}
		case int:
			p = p.Index(s)
		}
	}
	return p
}
