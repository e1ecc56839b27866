package match

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

func rule(group, version, resource string, names ...string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{ResourceNames: names, RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{"CREATE"},
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}}
}

func namespace(name string, l map[string]string) *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l}}
}

var cluster = client.NewFake(namespace("shop", map[string]string{"tier": "prod"})).Cache()

func write(o, old schema.Object, r *schema.Resource) *request.Request {
	a := &registry.Attributes{Verb: "create", Resource: r.Stored(), Request: r, Object: o, Old: old, Cluster: cluster, Key: schema.KeyOf(o)}
	if old != nil {
		a.Verb = "update"
	}
	return request.New(a, nil)
}

func configMap(ns string, l map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "c", Labels: l}}
}

func in(key string, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: "In", Values: values}}}
}

func TestMatch(t *testing.T) {
	maps, spaces := schema.ResourceFor[*corev1.ConfigMap](), schema.ResourceFor[*corev1.Namespace]()
	red, both := map[string]string{"color": "red"}, []admissionv1.OperationType{"CREATE", "UPDATE"}
	updates := rule("", "v1", "configmaps")
	updates.Operations = both
	plain := write(configMap("shop", nil), nil, maps)
	for _, c := range []struct {
		name string
		m    admissionv1.MatchResources
		r    *request.Request
		want bool
		err  string
	}{
		{"no rules match all", admissionv1.MatchResources{}, plain, true, ""},
		{"rule", admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule("", "v1", "configmaps")}}, plain, true, ""},
		{"any", admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule("*", "*", "*")}}, plain, true, ""},
		{"other resource", admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule("", "v1", "secrets")}}, plain, false, ""},
		{"other operation", admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule("", "v1", "configmaps")}},
			write(configMap("shop", nil), configMap("shop", nil), maps), false, ""},
		{"name", admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule("", "v1", "configmaps", "b", "c")}}, plain, true, ""},
		{"other name", admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule("", "v1", "configmaps", "b")}}, plain, false, ""},
		{"excluded", admissionv1.MatchResources{ExcludeResourceRules: []admissionv1.NamedRuleWithOperations{rule("", "v1", "configmaps")}}, plain, false, ""},
		{"namespace", admissionv1.MatchResources{NamespaceSelector: in("tier", "prod")}, plain, true, ""},
		{"other namespace", admissionv1.MatchResources{NamespaceSelector: in("tier", "test")}, plain, false, ""},
		{"no namespace", admissionv1.MatchResources{NamespaceSelector: in("tier", "prod")}, write(configMap("gone", nil), nil, maps), false, `namespaces "gone" not found`},
		{"no namespace, other rule", admissionv1.MatchResources{NamespaceSelector: in("tier", "prod"), ResourceRules: []admissionv1.NamedRuleWithOperations{rule("", "v1", "secrets")}},
			write(configMap("gone", nil), nil, maps), false, ""},
		{"new namespace by its own labels", admissionv1.MatchResources{NamespaceSelector: in("tier", "test")},
			write(namespace("new", map[string]string{"tier": "test"}), nil, spaces), true, ""},
		{"object", admissionv1.MatchResources{ObjectSelector: in("color", "red")}, write(configMap("shop", red), nil, maps), true, ""},
		{"other object", admissionv1.MatchResources{ObjectSelector: in("color", "red")}, plain, false, ""},
		{"object as it was", admissionv1.MatchResources{ObjectSelector: in("color", "red"), ResourceRules: []admissionv1.NamedRuleWithOperations{updates}},
			write(configMap("shop", nil), configMap("shop", red), maps), true, ""},
		{"bad selector", admissionv1.MatchResources{ObjectSelector: in("color")}, plain, false,
			"Internal error occurred: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"},
		{"bad selector, other namespace", admissionv1.MatchResources{ObjectSelector: in("color"), NamespaceSelector: in("tier", "test")}, plain, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, ok, err := ForPolicy(&c.m).Match(c.r)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if ok != c.want || got != c.err {
				t.Errorf("matches: %v, error %q", ok, got)
			}
			if ok && (m.Resource != c.r.GetResource() || m.Kind != c.r.GetKind()) {
				t.Errorf("matched as %v", m)
			}
		})
	}
}

// With Equivalent a rule for another version of a kind matches, as that.
func TestEquivalent(t *testing.T) {
	v1, v2 := schema.ResourceFor[*autoscalingv1.HorizontalPodAutoscaler](), schema.ResourceFor[*autoscalingv2.HorizontalPodAutoscaler]()
	o := &autoscalingv2.HorizontalPodAutoscaler{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	exact, equivalent := admissionv1.Exact, admissionv1.Equivalent
	for _, c := range []struct {
		name   string
		policy *admissionv1.MatchPolicyType
		rules  []admissionv1.NamedRuleWithOperations
		want   *schema.Resource
	}{
		{"exact", &exact, []admissionv1.NamedRuleWithOperations{rule("autoscaling", "v1", "horizontalpodautoscalers")}, nil},
		{"not said", nil, []admissionv1.NamedRuleWithOperations{rule("autoscaling", "v1", "horizontalpodautoscalers")}, nil},
		{"equivalent", &equivalent, []admissionv1.NamedRuleWithOperations{rule("autoscaling", "v1", "horizontalpodautoscalers")}, v1},
		{"as asked comes first", &equivalent, []admissionv1.NamedRuleWithOperations{
			rule("autoscaling", "v1", "horizontalpodautoscalers"), rule("autoscaling", "v2", "horizontalpodautoscalers")}, v2},
		{"neither", &equivalent, []admissionv1.NamedRuleWithOperations{rule("apps", "v1", "deployments")}, nil},
	} {
		var rules []admissionv1.RuleWithOperations
		for _, r := range c.rules {
			rules = append(rules, r.RuleWithOperations)
		}
		m, ok, err := ForWebhook(rules, c.policy, nil, nil).Match(write(o, nil, v2))
		if err != nil || ok != (c.want != nil) || ok && (m.Resource != c.want.GVR() || m.Kind != c.want.GVK()) {
			t.Errorf("%s: matches %v as %v, error %v", c.name, ok, m, err)
		}
	}
	if _, ok, _ := ForWebhook(nil, nil, nil, nil).Match(write(o, nil, v2)); ok {
		t.Error("a webhook without rules matches")
	}
}
