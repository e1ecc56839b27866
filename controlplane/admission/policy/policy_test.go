package policy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind}
}

func deploymentRules() *admissionv1.MatchResources {
	return &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}}}}
}

func policyOf(expression string, change ...func(*admissionv1.ValidatingAdmissionPolicy)) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: typeMeta("ValidatingAdmissionPolicy"), ObjectMeta: metav1.ObjectMeta{Name: "limits", Generation: 1},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: deploymentRules(), Validations: []admissionv1.Validation{{Expression: expression}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func bind(actions []admissionv1.ValidationAction, change ...func(*admissionv1.ValidatingAdmissionPolicyBinding)) *admissionv1.ValidatingAdmissionPolicyBinding {
	b := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: typeMeta("ValidatingAdmissionPolicyBinding"), ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "limits", ValidationActions: actions},
	}
	for _, c := range change {
		c(b)
	}
	return b
}

var deny = []admissionv1.ValidationAction{admissionv1.Deny}

func world(objects ...schema.Object) *client.Fake {
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"tier": "prod"}}}
	return client.NewFake(append([]schema.Object{ns}, objects...)...)
}

func deployment(f *client.Fake, replicas int32) *registry.Attributes {
	r := schema.ResourceFor[*appsv1.Deployment]()
	d := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}
	return &registry.Attributes{User: &user.DefaultInfo{Name: "jane"}, Verb: "create", Resource: r, Request: r,
		Key: schema.Key{Namespace: "shop", Name: "web"}, Object: d, Cluster: f.Cache()}
}

type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

func TestValidations(t *testing.T) {
	forbidden, ignore := metav1.StatusReasonForbidden, admissionv1.Ignore
	params := func(p *admissionv1.ValidatingAdmissionPolicy) {
		p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	}
	useParams := func(action admissionv1.ParameterNotFoundActionType) func(*admissionv1.ValidatingAdmissionPolicyBinding) {
		return func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ParamRef = &admissionv1.ParamRef{Name: "max", Namespace: "shop", ParameterNotFoundAction: &action}
		}
	}
	most := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "max"}, Data: map[string]string{"replicas": "3"}}
	for name, c := range map[string]struct {
		objects []schema.Object
		want    string // "" admitted
		reason  metav1.StatusReason
		warn    string
	}{
		"true":  {[]schema.Object{policyOf("object.spec.replicas <= 5"), bind(deny)}, "", "", ""},
		"false": {[]schema.Object{policyOf("object.spec.replicas <= 4"), bind(deny)}, `deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'everywhere' denied request: failed expression: object.spec.replicas <= 4`, metav1.StatusReasonInvalid, ""},
		"reason and message": {[]schema.Object{policyOf("object.spec.replicas <= 4", func(p *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec.Validations[0].Reason, p.Spec.Validations[0].MessageExpression = &forbidden, "'not ' + string(object.spec.replicas)"
		}), bind(deny)}, "denied request: not 5", metav1.StatusReasonForbidden, ""},
		"warn": {[]schema.Object{policyOf("object.spec.replicas <= 4"), bind([]admissionv1.ValidationAction{admissionv1.Warn})}, "", "",
			"Validation failed for ValidatingAdmissionPolicy 'limits' with binding 'everywhere': failed expression: object.spec.replicas <= 4"},
		"no binding": {[]schema.Object{policyOf("false")}, "", "", ""},
		"variables and namespace": {[]schema.Object{policyOf("variables.prod && object.spec.replicas > 9", func(p *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec.Variables = []admissionv1.Variable{{Name: "prod", Expression: "namespaceObject.metadata.labels.tier == 'prod'"}}
		}), bind(deny)}, "failed expression", metav1.StatusReasonInvalid, ""},
		"condition": {[]schema.Object{policyOf("false", func(p *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "object.spec.replicas > 100"}}
		}), bind(deny)}, "", "", ""},
		"params":           {[]schema.Object{policyOf("object.spec.replicas <= int(params.data.replicas)", params), bind(deny, useParams(admissionv1.DenyAction)), most}, "failed expression", metav1.StatusReasonInvalid, ""},
		"params not there": {[]schema.Object{policyOf("false", params), bind(deny, useParams(admissionv1.AllowAction))}, "", "", ""},
		"params demanded":  {[]schema.Object{policyOf("true", params), bind(deny, useParams(admissionv1.DenyAction))}, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction", metav1.StatusReasonInvalid, ""},
		"unknown param kind": {[]schema.Object{policyOf("true", func(p *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "x.y/v1", Kind: "Z"}
		}), bind(deny)}, "failed to configure policy: failed to find resource referenced by paramKind: 'x.y/v1, Kind=Z'", metav1.StatusReasonInvalid, ""},
		"does not compile": {[]schema.Object{policyOf("object.("), bind(deny)}, "compilation failed", metav1.StatusReasonInvalid, ""},
		"fails, ignored":   {[]schema.Object{policyOf("object.spec.nothing == 1", func(p *admissionv1.ValidatingAdmissionPolicy) { p.Spec.FailurePolicy = &ignore }), bind(deny)}, "", "", ""},
		"too costly":       {[]schema.Object{policyOf("[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, [1,2,3,4,5,6,7,8,9,10].all(g, a+b+c+d+e+f+g > 0)))))))"), bind(deny)}, "cost", metav1.StatusReasonInvalid, ""},
		"authorizer":       {[]schema.Object{policyOf("authorizer.group('').resource('secrets').namespace('shop').check('get').allowed()"), bind(deny)}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := world(c.objects...)
			_, v := New(Config{Cache: f.Cache(), Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetResource() == "secrets" {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})})
			rec := &recorder{}
			err := v.Validate(warning.WithWarningRecorder(context.Background(), rec), deployment(f, 5))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error %v", err)
			}
			if c.want != "" && apierrors.ReasonForError(err) != c.reason {
				t.Errorf("reason %v", apierrors.ReasonForError(err))
			}
			if got := strings.Join(rec.texts, "|"); got != c.warn {
				t.Errorf("warnings %q", got)
			}
		})
	}
}

func TestMutations(t *testing.T) {
	mutation := func(m admissionv1.Mutation) []schema.Object {
		rules := deploymentRules()
		return []schema.Object{
			&admissionv1.MutatingAdmissionPolicy{TypeMeta: typeMeta("MutatingAdmissionPolicy"), ObjectMeta: metav1.ObjectMeta{Name: "sets"},
				Spec: admissionv1.MutatingAdmissionPolicySpec{MatchConstraints: rules, Mutations: []admissionv1.Mutation{m}, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy}},
			&admissionv1.MutatingAdmissionPolicyBinding{TypeMeta: typeMeta("MutatingAdmissionPolicyBinding"), ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
				Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "sets"}},
		}
	}
	applied := func(e string) admissionv1.Mutation {
		return admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: e}}
	}
	patched := func(e string) admissionv1.Mutation {
		return admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: e}}
	}
	for name, c := range map[string]struct {
		mutation admissionv1.Mutation
		check    func(*appsv1.Deployment) bool
		want     string
	}{
		"apply": {applied(`Object{metadata: Object.metadata{labels: {"set": "yes"}}}`), func(d *appsv1.Deployment) bool { return d.Labels["set"] == "yes" && *d.Spec.Replicas == 5 }, ""},
		"preset": {applied(`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers:
			object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, env: [Object.spec.template.spec.containers.env{name: "DB", value: "x"}]})}}}}`),
			func(d *appsv1.Deployment) bool {
				c := d.Spec.Template.Spec.Containers
				return len(c) == 1 && c[0].Image == "i" && len(c[0].Env) == 1 && c[0].Env[0].Value == "x"
			}, ""},
		"json patch": {patched(`[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas + 1}]`), func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 6 }, ""},
		"failed test": {patched(`[JSONPatch{op: "test", path: "/spec/replicas", value: 1}, JSONPatch{op: "replace", path: "/spec/replicas", value: 9}]`),
			func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 5 }, ""},
		"wrong path": {patched(`[JSONPatch{op: "remove", path: "/spec/nothing"}]`), nil, "policy 'sets' with binding 'everywhere' denied request: JSON Patch"},
	} {
		t.Run(name, func(t *testing.T) {
			f := world(mutation(c.mutation)...)
			m, _ := New(Config{Cache: f.Cache()})
			a := deployment(f, 5)
			ctx, pass := request.WithPass(context.Background())
			err := m.Mutate(ctx, a)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := a.Object.(*appsv1.Deployment); !c.check(d) {
				t.Errorf("spec %+v labels %v", d.Spec, d.Labels)
			}
			if pass.Next() {
				if err := m.Mutate(ctx, a); err != nil {
					t.Error(err)
				}
				if d := a.Object.(*appsv1.Deployment); !c.check(d) {
					t.Errorf("after the second run: %+v", d.Spec)
				}
			}
		})
	}
}

func TestTypeChecking(t *testing.T) {
	number, object := spec.Int64Property(), spec.MapProperty(spec.StringProperty())
	schemas := func(k kschema.GroupVersionKind) (*spec.Schema, error) {
		if k.Kind != "Deployment" {
			return nil, resolver.ErrSchemaNotFound
		}
		inner := (&spec.Schema{}).Typed("object", "").SetProperty("replicas", *number).SetProperty("labels", *object)
		return (&spec.Schema{}).Typed("object", "").SetProperty("spec", *inner), nil
	}
	p := policyOf("object.spec.replicas > 1")
	p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: "object.spec.replicas == 'x'"}, admissionv1.Validation{Expression: "object.spec.replica > 1", MessageExpression: "object.spec.nothing"})
	f := world(p)
	s := NewStatus(StatusConfig{Cache: f.Cache(), Client: f, Schemas: schemas})
	if len(s.Watches()) != 1 {
		t.Fatal("watches nothing")
	}
	if _, err := s.Reconcile(context.Background(), schema.Key{Name: "limits"}); err != nil {
		t.Fatal(err)
	}
	o, err := f.Get(context.Background(), s.Watches()[0].Resource, schema.Key{Name: "limits"})
	if err != nil {
		t.Fatal(err)
	}
	status := o.(*admissionv1.ValidatingAdmissionPolicy).Status
	if status.ObservedGeneration != 1 || status.TypeChecking == nil {
		t.Fatalf("status %+v", status)
	}
	var fields []string
	for _, w := range status.TypeChecking.ExpressionWarnings {
		fields = append(fields, w.FieldRef)
		if !strings.HasPrefix(w.Warning, "apps/v1, Kind=Deployment: ") {
			t.Errorf("warning %q", w.Warning)
		}
	}
	if got := strings.Join(fields, " "); got != "spec.validations[1].expression spec.validations[2].expression spec.validations[2].messageExpression" {
		t.Errorf("fields %s", got)
	}
}

func TestOpenAPI(t *testing.T) {
	doc := map[string]any{"components": map[string]any{"schemas": map[string]any{
		"io.x.Thing": map[string]any{"type": "object", "x-kubernetes-group-version-kind": []any{map[string]any{"group": "x.io", "version": "v1", "kind": "Thing"}},
			"properties": map[string]any{"spec": map[string]any{"allOf": []any{map[string]any{"$ref": "#/components/schemas/io.x.Spec"}}}}},
		"io.x.Spec": map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}},
	}}}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	schemas := OpenAPI(func(gv kschema.GroupVersion) ([]byte, error) {
		if gv.Group == "x.io" {
			return data, nil
		}
		return nil, nil
	})
	s, err := schemas(kschema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Thing"})
	if err != nil || s.Properties["spec"].Properties["n"].Type[0] != "integer" {
		t.Errorf("schema %+v, %v", s, err)
	}
	if _, err := schemas(kschema.GroupVersionKind{Group: "y.io", Version: "v1", Kind: "Thing"}); !errors.Is(err, resolver.ErrSchemaNotFound) {
		t.Errorf("error %v", err)
	}
}

// FuzzExpression: whatever an expression says, it is evaluated in bounded time
// or refused.
func FuzzExpression(f *testing.F) {
	f.Add("object.spec.replicas > 1")
	f.Add("object.metadata.name.matches('(a+)+$')")
	f.Add("[1].map(x, [x].map(y, y))")
	f.Add("variables.x")
	f.Add("'\xff'")
	f.Fuzz(func(t *testing.T, text string) {
		w := world(policyOf(text), bind(deny))
		_, v := New(Config{Cache: w.Cache()})
		var status *apierrors.StatusError
		if err := v.Validate(context.Background(), deployment(w, 1)); err != nil && !errors.As(err, &status) {
			t.Fatalf("error %v", err)
		}
	})
}
