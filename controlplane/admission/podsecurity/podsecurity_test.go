package podsecurity

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
)

var (
	pods        = schema.ResourceFor[*corev1.Pod]()
	namespaces  = schema.ResourceFor[*corev1.Namespace]()
	deployments = schema.ResourceFor[*appsv1.Deployment]()
)

// said collects warnings.
type said []string

func (s *said) AddWarning(_, text string) { *s = append(*s, text) }

// space is the namespace shop with labels "enforce=baseline warn=restricted".
func space(modes string) *corev1.Namespace {
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{}}}
	for _, m := range strings.Fields(modes) {
		mode, level, _ := strings.Cut(m, "=")
		ns.Labels["pod-security.kubernetes.io/"+mode] = level
	}
	return ns
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func onHost(p *corev1.Pod) { p.Spec.HostNetwork = true }

func deployment() *appsv1.Deployment {
	p := pod("", onHost)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: p.Spec}}}
}

const host = "host namespaces (hostNetwork=true)"

func TestValidate(t *testing.T) {
	sandboxed := func(p *corev1.Pod) { onHost(p); p.Spec.RuntimeClassName = ptr.To("sandbox") }
	for _, c := range []struct {
		name    string
		labels  string
		cfg     podstandard.Config
		r       *schema.Resource
		o, old  schema.Object
		err     string
		warning string
	}{
		{"no labels", "", podstandard.Config{}, pods, pod("web", onHost), nil, "", ""},
		{"allowed", "enforce=baseline", podstandard.Config{}, pods, pod("web"), nil, "", ""},
		{"refused", "enforce=baseline", podstandard.Config{}, pods, pod("web", onHost), nil,
			`pods "web" is forbidden: violates PodSecurity "baseline:latest": ` + host, ""},
		{"warned", "warn=baseline", podstandard.Config{}, pods, pod("web", onHost), nil, "", `would violate PodSecurity "baseline:latest": ` + host},
		{"refused, not warned besides", "enforce=baseline warn=baseline", podstandard.Config{}, pods, pod("web", onHost), nil,
			`pods "web" is forbidden: violates PodSecurity "baseline:latest": ` + host, ""},
		{"template is not refused, and warned of where nothing is said of that", "enforce=baseline", podstandard.Config{}, deployments, deployment(), nil, "",
			`would violate PodSecurity "baseline:latest": ` + host},
		{"template of a namespace that warns of nothing", "enforce=baseline warn=privileged", podstandard.Config{}, deployments, deployment(), nil, "", ""},
		{"template is warned of", "enforce=baseline warn=baseline", podstandard.Config{}, deployments, deployment(), nil, "", `would violate PodSecurity "baseline:latest": ` + host},
		{"exempt user", "enforce=baseline", podstandard.Config{Users: []string{"jane"}}, pods, pod("web", onHost), nil, "", ""},
		{"exempt namespace", "enforce=baseline", podstandard.Config{Namespaces: []string{"shop"}}, pods, pod("web", onHost), nil, "", ""},
		{"exempt runtime", "enforce=baseline", podstandard.Config{RuntimeClasses: []string{"sandbox"}}, pods, pod("web", sandboxed), nil, "", ""},
		{"nothing significant changes", "enforce=baseline", podstandard.Config{}, pods, pod("web", onHost), pod("web", onHost), "", ""},
		{"a bad label enforces the strictest", "enforce=basline", podstandard.Config{}, pods, pod("web", onHost), nil,
			`pods "web" is forbidden: violates PodSecurity "restricted:latest": ` + host, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			var s said
			ctx := warning.WithWarningRecorder(t.Context(), &s)
			a := &registry.Attributes{User: &user.DefaultInfo{Name: "jane"}, Verb: "create", Resource: c.r, Key: schema.KeyOf(c.o), Object: c.o, Old: c.old,
				Cluster: client.NewFake(space(c.labels)).Cache()}
			got := ""
			if err := p.Validate(ctx, a); err != nil {
				got = err.Error()
			}
			if c.err == "" && got != "" || !strings.HasPrefix(got, c.err) {
				t.Errorf("Validate: %q, want %q", got, c.err)
			}
			if strings.Join(s, "\n") != c.warning {
				t.Errorf("warnings are %q, want %q", s, c.warning)
			}
		})
	}
}

func TestNamespace(t *testing.T) {
	owned := func(p *corev1.Pod) {
		onHost(p)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "1", Controller: ptr.To(true)}}
	}
	cluster := client.NewFake(pod("b", owned), pod("a", owned), pod("c", onHost), pod("fine")).Cache()
	violate := []string{`existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"`, "a (and 2 other pods): " + "host namespaces"}
	exempt := []string{`namespace "shop" is exempt from Pod Security, and the policy (enforce=baseline:latest) will be ignored`}
	for _, c := range []struct {
		name, was, is string
		exempt        bool
		err           string
		warnings      []string
	}{
		{"new and plain", "-", "", false, "", nil},
		{"new and wrong", "-", "enforce=basline", false, `Namespace "shop" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "basline": ` +
			`must be one of privileged, baseline, restricted`, nil},
		{"new and exempt", "-", "enforce=baseline", true, "", exempt},
		{"stricter", "", "enforce=baseline", false, "", violate},
		{"stricter and exempt", "", "enforce=baseline", true, "", exempt},
		{"the same", "enforce=baseline", "enforce=baseline", false, "", nil},
		{"weaker", "enforce=restricted", "enforce=baseline", false, "", nil},
		{"not at all", "enforce=restricted", "", false, "", nil},
		{"wrong as before", "enforce=basline", "enforce=basline", false, "", nil},
		{"another mode", "", "warn=baseline", false, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := podstandard.Config{}
			if c.exempt {
				cfg.Namespaces = []string{"shop"}
			}
			p, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var s said
			a := &registry.Attributes{Verb: "create", Resource: namespaces, Key: schema.Key{Name: "shop"}, Object: space(c.is), Cluster: cluster}
			if c.was != "-" {
				a.Verb, a.Old = "update", space(c.was)
			}
			got := ""
			if err := p.Validate(warning.WithWarningRecorder(t.Context(), &s), a); err != nil {
				got = err.Error()
			}
			if got != c.err || !slices.Equal(s, c.warnings) {
				t.Errorf("Validate: %q, warnings %q", got, []string(s))
			}
		})
	}
}

func TestPrioritized(t *testing.T) {
	owned := func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr.To(true)}} }
	p, err := New(podstandard.Config{RuntimeClasses: []string{"sandbox"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range p.prioritized([]*corev1.Pod{pod("a1", owned), pod("a2", owned), pod("bare"),
		pod("sandboxed", func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("sandbox") })}) {
		got = append(got, p.Name)
	}
	if want := []string{"a1", "bare", "a2"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

func TestSignificant(t *testing.T) {
	ephemeral := func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"label", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, false},
		{"tolerations", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} }, false},
		{"image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }, true},
		{"ephemeral container", ephemeral, true},
	} {
		if got := significant(pod("web", c.change), pod("web")); got != c.want {
			t.Errorf("%s: significant: %v", c.name, got)
		}
	}
	if significant(pod("web", ephemeral), pod("web", ephemeral)) {
		t.Error("an ephemeral container that was there is significant")
	}
}

func TestHandles(t *testing.T) {
	for _, c := range []struct {
		verb string
		r    *schema.Resource
		sub  string
		want bool
	}{
		{"create", pods, "", true}, {"update", pods, "ephemeralcontainers", true}, {"update", pods, "status", false}, {"delete", pods, "", false},
		{"update", namespaces, "", true}, {"update", namespaces, "finalize", false}, {"create", deployments, "", true},
		{"create", schema.ResourceFor[*appsv1.ControllerRevision](), "", false}, {"create", schema.ResourceFor[*batchv1.CronJob](), "", true},
		{"create", schema.ResourceFor[*corev1.ConfigMap](), "", false},
	} {
		if got := (&Plugin{}).Handles(c.verb, c.r, c.sub); got != c.want {
			t.Errorf("Handles(%s, %s, %q) = %v", c.verb, c.r, c.sub, got)
		}
	}
}

// TestBaseline: what a cluster runs with. A namespace that says nothing refuses
// pods of the host and warns of their templates, one label opts out, and the
// system's own are left alone.
func TestBaseline(t *testing.T) {
	p, err := New(podstandard.Baseline())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		namespace, labels string
		refused, warned   bool
	}{
		{"shop", "", true, true},
		{"shop", "enforce=privileged", false, true},
		{"shop", "enforce=privileged warn=privileged", false, false},
		{"kube-system", "", false, false},
		{"kube-public", "", false, false},
		{"kube-node-lease", "", false, false},
	} {
		ns := space(tt.labels)
		ns.Name = tt.namespace
		o, d := pod("web", onHost), deployment()
		o.Namespace, d.Namespace = ns.Name, ns.Name
		attributes := func(r *schema.Resource, o schema.Object) *registry.Attributes {
			return &registry.Attributes{Verb: "create", Resource: r, Request: r, Key: schema.KeyOf(o), Object: o, User: &user.DefaultInfo{Name: "jane"}, Cluster: client.NewFake(ns).Cache()}
		}
		if err := p.Validate(t.Context(), attributes(pods, o)); (err != nil) != tt.refused {
			t.Errorf("%s %s: a pod: %v", tt.namespace, tt.labels, err)
		}
		w := &said{}
		if err := p.Validate(warning.WithWarningRecorder(t.Context(), w), attributes(deployments, d)); err != nil || len(*w) > 0 != tt.warned {
			t.Errorf("%s %s: a template: %v, %q", tt.namespace, tt.labels, err, *w)
		}
		// What runs stays, and may be changed where nothing is looked at.
		labelled := o.DeepCopy()
		labelled.Labels = map[string]string{"a": "b"}
		a := attributes(pods, labelled)
		a.Verb, a.Old = "update", o
		if err := p.Validate(t.Context(), a); err != nil {
			t.Errorf("%s %s: a label on a pod that runs: %v", tt.namespace, tt.labels, err)
		}
	}
}
