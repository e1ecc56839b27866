package reference

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
)

// builtIn reads an object of a built-in kind.
func (r *reader) builtIn(kind string, v render.Value) {
	switch kind {
	case "Pod":
		r.pods(v, "")
	case "Deployment", "ReplicaSet", "DaemonSet", "ReplicationController", "Job":
		r.pods(v.Get("spec", "template"), "spec.template.")
	case "StatefulSet":
		r.pods(v.Get("spec", "template"), "spec.template.")
		r.need("Service", r.namespace, v.Get("spec", "serviceName"), "spec.serviceName", "the pods have no names of their own in DNS")
		for i, c := range v.Get("spec", "volumeClaimTemplates").Items() {
			r.claim(c, fmt.Sprintf("spec.volumeClaimTemplates[%d].", i))
			r.replaced(v.Get("spec", "template", "spec", "volumes"), c.Get("metadata", "name").Text())
		}
	case "CronJob":
		r.pods(v.Get("spec", "jobTemplate", "spec", "template"), "spec.jobTemplate.spec.template.")
	case "PersistentVolumeClaim":
		r.claim(v, "")
	case "PersistentVolume":
		r.f.Class = v.Get("spec", "storageClassName").Text()
	case "Service":
		r.service(v)
	case "Ingress":
		r.ingress(v)
	case "HorizontalPodAutoscaler":
		r.target(v.Get("spec", "scaleTargetRef"))
	case "PodDisruptionBudget":
		if s := v.Get("spec", "selector"); s.There() {
			r.f.Selects = &Selects{Place: place(s, "spec.selector"), Selector: selector(s)}
		}
	case "RoleBinding", "ClusterRoleBinding":
		r.binding(v)
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		for i, w := range v.Get("webhooks").Items() {
			s := w.Get("clientConfig", "service")
			r.need("Service", s.Get("namespace").Text(), s.Get("name"), fmt.Sprintf("webhooks[%d].clientConfig.service.name", i), "the webhook cannot be called")
		}
	case "APIService":
		s := v.Get("spec", "service")
		r.need("Service", s.Get("namespace").Text(), s.Get("name"), "spec.service.name", "the API cannot be reached")
	}
}

// replaced takes back what is said of a volume: a claim that a StatefulSet makes
// for each pod takes its place.
func (r *reader) replaced(volumes render.Value, name string) {
	for i, v := range volumes.Items() {
		if v.Get("name").Text() == name {
			at := fmt.Sprintf("spec.template.spec.volumes[%d].", i)
			r.f.Needs = slices.DeleteFunc(r.f.Needs, func(n Need) bool { return strings.HasPrefix(n.Field, at) })
		}
	}
}

func (r *reader) claim(v render.Value, at string) {
	r.need("StorageClass", "", v.Get("spec", "storageClassName"), at+"spec.storageClassName", "no volume is made for the claim, and no pod that mounts it starts")
}

// service reads the selector of a Service and its ports, and what it names of
// the pods.
func (r *reader) service(v render.Value) {
	spec := v.Get("spec")
	if spec.Get("type").Text() == "ExternalName" {
		r.f.Any = true
		return
	}
	var named []NamedPort
	for i, p := range spec.Get("ports").Items() {
		r.f.Ports = append(r.f.Ports, Port{p.Get("name").Text(), p.Get("port").Scalar()})
		if t := p.Get("targetPort"); t.Text() != "" && !t.Number() {
			named = append(named, NamedPort{place(t, fmt.Sprintf("spec.ports[%d].targetPort", i)), t.Text()})
		}
	}
	set := labels.Set{}
	for key, text := range spec.Get("selector").Fields() {
		set[key] = text.Text()
	}
	if len(set) > 0 { // or somebody else makes the endpoints
		r.f.Selects = &Selects{Place: place(spec.Get("selector"), "spec.selector"), Selector: labels.SelectorFromSet(set), Named: named}
		r.f.Selects.File, r.f.Selects.Line, r.f.Selects.Column = spec.KeyPlace("selector")
	}
}

// madeByTLS are annotations of an Ingress for which an operator makes the
// Secret of its certificate.
var madeByTLS = []string{"cert-manager.io/issuer", "cert-manager.io/cluster-issuer", "kubernetes.io/tls-acme"}

func (r *reader) ingress(v render.Value) {
	r.backend(v.Get("spec", "defaultBackend"), "spec.defaultBackend")
	for i, rule := range v.Get("spec", "rules").Items() {
		for j, p := range rule.Get("http", "paths").Items() {
			r.backend(p.Get("backend"), fmt.Sprintf("spec.rules[%d].http.paths[%d].backend", i, j))
		}
	}
	for key := range v.Get("metadata", "annotations").Fields() {
		if slices.Contains(madeByTLS, key) {
			return
		}
	}
	for i, t := range v.Get("spec", "tls").Items() {
		r.need("Secret", r.namespace, t.Get("secretName"), fmt.Sprintf("spec.tls[%d].secretName", i), "the hosts have no certificate")
	}
}

func (r *reader) backend(v render.Value, at string) {
	s := v.Get("service")
	n := r.need("Service", r.namespace, s.Get("name"), at+".service.name", "requests for it have no answer")
	if n == nil {
		return
	}
	for _, by := range []string{"name", "number"} {
		if port := s.Get("port", by); port.Scalar() != "" {
			n.Port, n.PortAt = port.Scalar(), place(port, at+".service.port."+by)
		}
	}
}

// target reads the object that an autoscaler scales. Its kind may be any.
func (r *reader) target(v render.Value) {
	gv, err := kschema.ParseGroupVersion(v.Get("apiVersion").Text())
	if err != nil {
		return
	}
	if res := schema.ByGVK(gv.WithKind(v.Get("kind").Text())); res != nil && v.Get("name").Text() != "" {
		r.f.Needs = append(r.f.Needs, Need{Place: place(v.Get("name"), "spec.scaleTargetRef.name"), Why: "there is nothing to scale",
			Ref: render.Ref{Resource: res, Key: schema.Key{Namespace: r.namespace, Name: v.Get("name").Text()}}})
	}
}

// binding reads the role that is given, and the accounts that it is given to.
// Roles of the system are there before anything is declared.
func (r *reader) binding(v render.Value) {
	if name := v.Get("roleRef", "name"); !strings.HasPrefix(name.Text(), "system:") {
		r.need(v.Get("roleRef", "kind").Text(), r.namespace, name, "roleRef.name", "the binding gives no rights")
	}
	for i, s := range v.Get("subjects").Items() {
		if s.Get("kind").Text() == "ServiceAccount" {
			namespace := s.Get("namespace").Text()
			if namespace == "" {
				namespace = r.namespace
			}
			r.need("ServiceAccount", namespace, s.Get("name"), fmt.Sprintf("subjects[%d].name", i), "nobody has the rights that the binding gives")
		}
	}
}

// selector reads a label selector; nil where it is none.
func selector(v render.Value) labels.Selector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for key, text := range v.Get("matchLabels").Fields() {
		s.MatchLabels[key] = text.Text()
	}
	for _, e := range v.Get("matchExpressions").Items() {
		req := metav1.LabelSelectorRequirement{Key: e.Get("key").Text(), Operator: metav1.LabelSelectorOperator(e.Get("operator").Text())}
		for _, val := range e.Get("values").Items() {
			req.Values = append(req.Values, val.Text())
		}
		s.MatchExpressions = append(s.MatchExpressions, req)
	}
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil // the definition of the kind says what is wrong
	}
	return out
}
