package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestTemplateWarnings: texts and order are upstream's.
func TestTemplateWarnings(t *testing.T) {
	for _, tt := range []struct{ name, template, want string }{
		{"none", `{spec: {containers: [{name: c, env: [{name: A, value: a}, {name: A, value: "$(A):b"}], ports: [{containerPort: 80}, {containerPort: 81}]}]}}`, ""},
		{"placement", `{spec: {nodeSelector: {node-role.kubernetes.io/master: "", beta.kubernetes.io/os: linux}, topologySpreadConstraints: [{topologyKey: beta.kubernetes.io/arch}],
			affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{preference: {matchExpressions: [{key: k, operator: In, values: ["-"]}]}}]},
			podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: k}]}}}}`, `t.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead
t.spec.nodeSelector[node-role.kubernetes.io/master]: use "node-role.kubernetes.io/control-plane" instead
t.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid, a valid label must be
t.spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead
t.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod
t.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod`},
		{"twice", `{spec: {hostAliases: [{ip: 10.0.0.1}, {ip: 10.0.0.1}], imagePullSecrets: [{name: a}, {name: a}, {}]}}`, `t.spec.hostAliases[1].ip: duplicate ip "10.0.0.1"
t.spec.imagePullSecrets[1].name: duplicate name "a"
t.spec.imagePullSecrets[2].name: invalid empty name ""`},
		{"containers", `{metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: x, container.apparmor.security.beta.kubernetes.io/c: runtime/default}},
			spec: {terminationGracePeriodSeconds: -1, containers: [{name: c, resources: {requests: {memory: 100m}}, env: [{name: A}, {name: A, value: b}],
			ports: [{containerPort: 80, name: p}, {containerPort: 80, hostPort: 8080, name: p}]}]}}`, `t.metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead
t.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead
t.spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer
t.spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply
t.spec.containers[0].ports[1]: overlapping port definition with t.spec.containers[0].ports[0]
t.spec.containers[0].ports[1]: duplicate port name "p" with t.spec.containers[0].ports[0], services and probes that select ports by name will use t.spec.containers[0].ports[0]
t.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`},
		{"AppArmor as the pod has it", `{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/c: runtime/default}},
			spec: {securityContext: {appArmorProfile: {type: RuntimeDefault}}, containers: [{name: c}]}}`, ""},
		{"volumes", `{spec: {volumes: [{name: g, gitRepo: {repository: x}}, {name: s, secret: {secretName: s, items: [{key: a, path: p}, {key: b, path: p/q}]}},
			{name: j, projected: {sources: [{configMap: {name: m, items: [{key: a, path: x}]}}, {secret: {name: s, items: [{key: a, path: x/}]}}, {}]}}]}}`, `t.spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+
volume "s" (Secret "s"): overlapping paths: "p/q" with "p"
volume "j" (Projected): overlapping paths: "x" (Secret "s") with "x" (ConfigMap "m")
volume "j" (Projected) has no sources provided`},
	} {
		var p corev1.PodTemplateSpec
		if err := yaml.UnmarshalStrict([]byte(tt.template), &p); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var got []string
		for _, text := range TemplateWarnings(&p, field.NewPath("t")) {
			text, _, _ = strings.Cut(text, " an empty string or")
			got = append(got, text)
		}
		if text := strings.Join(got, "\n"); text != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, text, tt.want)
		}
	}
}
