package podstandard

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

func judge(t *testing.T) *Judge {
	t.Helper()
	j, err := New(Baseline())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func podOf(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	s := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPlaces: every check of the library has fields to look for.
func TestPlaces(t *testing.T) {
	for _, c := range policy.DefaultChecks() {
		if len(places[c.ID]) == 0 {
			t.Errorf("no field is known of the check %s", c.ID)
		}
	}
	if r := judge(t).Evaluate(at(api.LevelRestricted), &metav1.ObjectMeta{}, podOf(t, innocent)); !r.Allowed {
		t.Errorf("the innocent pod is refused: %s", r.ForbiddenDetail())
	}
}

func at(l api.Level) api.LevelVersion {
	return api.LevelVersion{Level: l, Version: api.LatestVersion()}
}

const conformant = "{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"

func TestViolations(t *testing.T) {
	for _, c := range []struct {
		name  string
		level api.Level
		spec  string
		want  []string
	}{
		{"plain", api.LevelBaseline, `containers: [{name: c}]`, nil},
		{"host", api.LevelBaseline, `{hostNetwork: true, hostPID: true, containers: [{name: c}]}`,
			[]string{"hostNetwork: host namespaces (hostNetwork=true)", "hostPID: host namespaces (hostPID=true)"}},
		{"the second container", api.LevelBaseline, `containers: [{name: a, securityContext: {privileged: false}}, {name: b, securityContext: {privileged: true}}]`,
			[]string{`containers[1].securityContext.privileged: privileged (container "b" must not set securityContext.privileged=true)`}},
		{"an init container", api.LevelBaseline, `{containers: [{name: a}], initContainers: [{name: i, securityContext: {capabilities: {add: [CHOWN, SYS_ADMIN, NET_ADMIN]}}}]}`,
			[]string{`initContainers[0].securityContext.capabilities.add[1]: non-default capabilities (container "i" must not include "SYS_ADMIN" in securityContext.capabilities.add)`,
				`initContainers[0].securityContext.capabilities.add[2]: non-default capabilities (container "i" must not include "NET_ADMIN" in securityContext.capabilities.add)`}},
		{"volumes and ports", api.LevelBaseline, `{containers: [{name: a, ports: [{containerPort: 80}, {containerPort: 81, hostPort: 81}]}], volumes: [{name: e, emptyDir: {}}, {name: h, hostPath: {path: /}}]}`,
			[]string{`volumes[1].hostPath: hostPath volumes (volume "h")`, `containers[0].ports[1].hostPort: hostPort (container "a" uses hostPort 81)`}},
		{"sysctls", api.LevelBaseline, `{containers: [{name: a}], securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}, {name: kernel.msgmax, value: "1"}]}}`,
			[]string{`securityContext.sysctls[1]: forbidden sysctls (kernel.msgmax)`}},
		{"lacking everything", api.LevelRestricted, `containers: [{name: a}, {name: b, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}}]`,
			[]string{
				`containers[0].securityContext.allowPrivilegeEscalation: allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)`,
				`containers[0].securityContext.capabilities.drop: unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"])`,
				`containers[0].securityContext.runAsNonRoot: runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)`,
				`containers[0].securityContext.seccompProfile.type: seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
			}},
		{"added and not dropped", api.LevelRestricted, `{securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: a, securityContext: {allowPrivilegeEscalation: true, capabilities: {add: [CHOWN]}}}]}`,
			[]string{
				`containers[0].securityContext.allowPrivilegeEscalation: allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)`,
				`containers[0].securityContext.capabilities.add[0]: unrestricted capabilities (container "a" must not include "CHOWN" in securityContext.capabilities.add)`,
				`containers[0].securityContext.capabilities.drop: unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"])`,
			}},
		{"the pod says so", api.LevelRestricted, `{securityContext: {runAsNonRoot: false, runAsUser: 0, seccompProfile: {type: RuntimeDefault}}, containers: [{name: a, securityContext: ` + conformant + `}]}`,
			[]string{`securityContext.runAsNonRoot: runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)`, `securityContext.runAsUser: runAsUser=0 (pod must not set runAsUser=0)`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range judge(t).Violations(at(c.level), &metav1.ObjectMeta{}, podOf(t, c.spec)) {
				got = append(got, v.Path.String()+": "+v.Text())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("violations are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestUpstreamsPods: of every pod among upstream's own fixtures the level that
// refuses it has violations, by the checks that upstream names, each with a
// field; the level that allows it has none.
func TestUpstreamsPods(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "test", "testdata")
	files, err := filepath.Glob(filepath.Join(root, "*", "v1.*", "*", "*.yaml"))
	if err != nil || len(files) < 1000 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	j := judge(t)
	for _, name := range files {
		rel, _ := filepath.Rel(root, name)
		parts := strings.Split(rel, "/") // baseline/v1.0/fail/x.yaml
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := yaml.Unmarshal(data, pod); err != nil {
			t.Fatal(err)
		}
		version, err := api.ParseVersion(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		lv := api.LevelVersion{Level: api.Level(parts[0]), Version: version}
		all, found := j.Evaluate(lv, &pod.ObjectMeta, &pod.Spec), j.Violations(lv, &pod.ObjectMeta, &pod.Spec)
		var reasons []string
		for _, v := range found {
			reasons = append(reasons, v.Reason)
			if v.Path == nil && len(pod.Annotations) == 0 {
				t.Errorf("%s: %s: no field is to blame", rel, v.Text())
			}
		}
		slices.Sort(reasons)
		slices.Sort(all.ForbiddenReasons)
		if !slices.Equal(slices.Compact(reasons), slices.Compact(all.ForbiddenReasons)) {
			t.Errorf("%s: reasons are %q, want %q", rel, reasons, all.ForbiddenReasons)
		}
		if all.Allowed != (len(found) == 0) || parts[2] == "fail" && all.Allowed {
			t.Errorf("%s: %d violations", rel, len(found))
		}
	}
}
