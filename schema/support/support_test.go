package support

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// belowIgnored are the fields below those that are ignored as a whole: what is
// new there may not be harmless.
var belowIgnored = map[string]string{
	"SecurityContext.windowsOptions":                                  "gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess",
	"PodSecurityContext.windowsOptions":                               "gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess",
	"PodAffinity.preferredDuringSchedulingIgnoredDuringExecution":     "weight podAffinityTerm",
	"PodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": "weight podAffinityTerm",
	"StorageClass.allowedTopologies":                                  "matchLabelExpressions",
	"EphemeralContainerCommon.ports":                                  "name hostPort containerPort protocol hostIP",
	"EphemeralContainerCommon.resources":                              "limits requests claims",
	"EphemeralContainerCommon.resizePolicy":                           "resourceName restartPolicy",
	"EphemeralContainerCommon.restartPolicyRules":                     "action exitCodes",
	"EphemeralContainerCommon.livenessProbe":                          "ProbeHandler initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds",
	"EphemeralContainerCommon.readinessProbe":                         "ProbeHandler initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds",
	"EphemeralContainerCommon.startupProbe":                           "ProbeHandler initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds",
	"EphemeralContainerCommon.lifecycle":                              "postStart preStop stopSignal",
	"NodeSpec.configSource":                                           "configMap",
}

func ofAPI(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

// whole returns what is missing or too much in tables.
func whole(tables map[reflect.Type]*table) (wrong []string) {
	for t, tab := range tables {
		have := map[string]bool{}
		for i := range t.NumField() {
			f := t.Field(i)
			name := tableName(f)
			have[name] = true
			where := t.Name() + "." + name
			rows := tab.rows[name]
			switch {
			case name == "TypeMeta" || name == "metadata" || name == "status" && !strings.HasSuffix(t.Name(), "Spec"):
			case len(rows) == 0 && !tab.way:
				wrong = append(wrong, where+" has no row")
			case len(rows) > 0 && tab.descends(f) && ofAPI(below(f.Type)) && tables[below(f.Type)] == nil:
				wrong = append(wrong, where+" is honoured, and its type "+below(f.Type).Name()+" has no table")
			}
			for _, k := range rows {
				if k.row.Verdict != Honoured && !strings.HasSuffix(k.row.Why, ".") && k.row.Verdict == Ignored || k.row.Verdict == Lacking && k.row.Why == "" {
					wrong = append(wrong, where+" does not say why")
				}
				if k.row.Verdict == Ignored && ofAPI(below(f.Type)) {
					var names []string
					for i := range below(f.Type).NumField() {
						names = append(names, tableName(below(f.Type).Field(i)))
					}
					if got := strings.Join(names, " "); got != belowIgnored[where] {
						wrong = append(wrong, where+" is ignored with all below: "+got)
					}
				}
			}
		}
		for name := range tab.rows {
			if !have[name] {
				wrong = append(wrong, t.Name()+" has no field "+name)
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// TestWhole: every field of every type that is reached has a row, and every row
// a field. It fails for a field that a new version of k8s.io/api brings.
func TestWhole(t *testing.T) {
	for _, w := range whole(tables) {
		t.Error(w)
	}
	for _, k := range kindsInDocs {
		if tables[reflect.TypeOf(k)] == nil {
			t.Errorf("%T has no table", k)
		}
	}
}

// TestWholeSees: the check above finds what it is for.
func TestWholeSees(t *testing.T) {
	cut := map[reflect.Type]*table{reflect.TypeFor[corev1.SecurityContext](): {rows: map[string][]keyed{
		"privileged": {{row: &Row{}}}, "capabilities": {{row: &Row{}}}, "gone": {{row: &Row{}}},
	}}}
	got := strings.Join(whole(cut), "\n")
	for _, want := range []string{"SecurityContext.procMount has no row", "SecurityContext has no field gone", "type Capabilities has no table"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestDocument(t *testing.T) {
	have, err := os.ReadFile("../../docs/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(Document()) {
		t.Error("docs/fields.md is stale: run go generate ./schema/support")
	}
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
	change(p)
	return p
}

func said(found []Finding) (out []string) {
	for i := range found {
		out = append(out, found[i].Row.API.String()+" "+found[i].Row.Git.String()+" "+found[i].Path.String()+" "+found[i].Value)
	}
	return out
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		o    any
		want []string
	}{
		{"nothing", pod(func(*corev1.Pod) {}), nil},
		{"defaults", pod(func(p *corev1.Pod) {
			p.Spec.HostUsers, p.Spec.RuntimeClassName = new(true), new("runc")
			p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
				ProcMount: new(corev1.DefaultProcMount), AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
				SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"},
			}
		}), nil},
		{"hostUsers", pod(func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }), []string{"refused refused spec.hostUsers false"}},
		{"runtime class", pod(func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("kata") }), []string{"warned of refused spec.runtimeClassName kata"}},
		{"of one container", pod(func(p *corev1.Pod) {
			p.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}
		}), []string{"refused refused spec.containers[1].securityContext.appArmorProfile.type RuntimeDefault"}},
		{"of an ephemeral container", pod(func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e",
				SecurityContext: &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t", Level: "s0:c1"}}}}}
		}), []string{"refused refused spec.ephemeralContainers[0].securityContext.seLinuxOptions.type container_t",
			"warned of warned of spec.ephemeralContainers[0].securityContext.seLinuxOptions.level s0:c1"}},
		{"key of a map", pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi"), corev1.ResourceCPU: resource.MustParse("1")}
		}), []string{"warned of warned of spec.containers[0].resources.limits[ephemeral-storage] "}},
		{"limits of the pod", pod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		}), []string{"refused refused spec.resources "}},
		{"volumes", pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}},
			}
		}), []string{"refused refused spec.volumes[0].emptyDir.medium HugePages-2Mi", "refused refused spec.volumes[1].nfs ", "warned of warned of spec.volumes[2].persistentVolumeClaim "}},
		{"annotation of a template", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{"container.apparmor.security.beta.kubernetes.io/a": "localhost/x", "container.apparmor.security.beta.kubernetes.io/b": "unconfined"}}}}},
			[]string{"refused refused spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/a] localhost/x"}},
		{"template", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
			Template:             corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostUsers: new(false)}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}},
		}}, []string{"refused refused spec.template.spec.hostUsers false", "warned of warned of spec.volumeClaimTemplates "}},
		{"ranges", &corev1.Service{Spec: corev1.ServiceSpec{LoadBalancerSourceRanges: []string{"10.0.0.0/8"}}}, []string{"refused refused spec.loadBalancerSourceRanges 10.0.0.0/8"}},
		{"every range", &corev1.Service{Spec: corev1.ServiceSpec{LoadBalancerSourceRanges: []string{"0.0.0.0/0"}}}, nil},
		{"policy that denies all", &networkingv1.NetworkPolicy{}, []string{"warned of refused spec "}},
		{"policy that allows all", &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}}}, nil},
		{"policy of ports", &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{}}}}}},
			[]string{"warned of refused spec "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, said(Check(c.o))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNew: what was there before an update is not said again, wherever it stands
// now; what the update sets or changes is.
func TestNew(t *testing.T) {
	profile := func(name string) *corev1.SecurityContext {
		return &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileType(name)}}
	}
	old := Check(pod(func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = profile("RuntimeDefault") }))
	for _, c := range []struct {
		name string
		is   func(*corev1.Pod)
		want int
	}{
		{"same", func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = profile("RuntimeDefault") }, 0},
		{"moved", func(p *corev1.Pod) { p.Spec.Containers[1].SecurityContext = profile("RuntimeDefault") }, 0},
		{"gone", func(*corev1.Pod) {}, 0},
		{"changed", func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = profile("Localhost") }, 1},
		{"one more", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext, p.Spec.Containers[1].SecurityContext = profile("RuntimeDefault"), profile("RuntimeDefault")
		}, 1},
	} {
		if got := New(Check(pod(c.is)), old); len(got) != c.want {
			t.Errorf("%s: %v", c.name, said(got))
		}
	}
}

// TestMessage: what, why, what to do instead.
func TestMessage(t *testing.T) {
	found := Check(pod(func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }))
	const want = "spec.hostUsers: Forbidden: false is not honoured by this cluster: no node maps users, so root in the pod would be root on the node; leave it out, and run as another user than root"
	if got := found[0].Error().Error(); got != want {
		t.Error(got)
	}
}

func BenchmarkCheck(b *testing.B) {
	p := pod(func(p *corev1.Pod) {
		p.Labels, p.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		p.Spec.Volumes = make([]corev1.Volume, 3)
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{}
		p.Spec.Containers[0].VolumeMounts = make([]corev1.VolumeMount, 3)
		p.Spec.Containers[0].Env = make([]corev1.EnvVar, 10)
	})
	b.ReportAllocs()
	for b.Loop() {
		Check(p)
	}
}
