package table

import (
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Columns of certificates, aggregation, fairness and addresses.
var _ = register(map[string]func(*Row) any{
	"csrDuration":  func(r *Row) any { return csrDuration(r.Object.(*certificatesv1.CertificateSigningRequest)) },
	"csrCondition": func(r *Row) any { return csrCondition(r.Object.(*certificatesv1.CertificateSigningRequest)) },

	"apiServiceTarget":    func(r *Row) any { return apiServiceTarget(r.Object.(*apiregistrationv1.APIService)) },
	"apiServiceAvailable": func(r *Row) any { return apiServiceAvailable(r.Object.(*apiregistrationv1.APIService)) },

	"runtimeHandler": func(r *Row) any { return r.Object.(*nodev1.RuntimeClass).Handler },
	"parentRef":      func(r *Row) any { return parentRef(r.Object.(*networkingv1.IPAddress)) },
	"serviceCIDRs":   func(r *Row) any { return strings.Join(r.Object.(*networkingv1.ServiceCIDR).Spec.CIDRs, ",") },

	"flowPrecedence": func(r *Row) any { return int64(r.Object.(*flowcontrolv1.FlowSchema).Spec.MatchingPrecedence) },
	"flowDangling":   func(r *Row) any { return flowDangling(r.Object.(*flowcontrolv1.FlowSchema)) },
	"levelShares": func(r *Row) any {
		if l := r.Object.(*flowcontrolv1.PriorityLevelConfiguration).Spec.Limited; l != nil {
			return int64(deref(l.NominalConcurrencyShares, 0))
		}
		return none
	},
	"levelQueues":      queuing(func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.Queues }),
	"levelHandSize":    queuing(func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.HandSize }),
	"levelQueueLength": queuing(func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.QueueLengthLimit }),

	"componentStatus": func(r *Row) any {
		switch c := healthy(r.Object.(*corev1.ComponentStatus)); c.Status {
		case "":
			return "Unknown"
		case corev1.ConditionTrue:
			return "Healthy"
		}
		return "Unhealthy"
	},
	"componentMessage": func(r *Row) any { return healthy(r.Object.(*corev1.ComponentStatus)).Message },
	"componentError":   func(r *Row) any { return healthy(r.Object.(*corev1.ComponentStatus)).Error },
})

func csrDuration(c *certificatesv1.CertificateSigningRequest) string {
	if c.Spec.ExpirationSeconds == nil {
		return none
	}
	return duration.HumanDuration(time.Duration(*c.Spec.ExpirationSeconds) * time.Second)
}

// csrCondition says what became of a request; a denial outweighs an approval.
func csrCondition(c *certificatesv1.CertificateSigningRequest) string {
	has := map[certificatesv1.RequestConditionType]bool{}
	for _, cond := range c.Status.Conditions {
		has[cond.Type] = true
	}
	state := "Pending"
	switch {
	case has[certificatesv1.CertificateDenied]:
		state = "Denied"
	case has[certificatesv1.CertificateApproved]:
		state = "Approved"
	}
	if has[certificatesv1.CertificateFailed] {
		state += ",Failed"
	}
	if len(c.Status.Certificate) > 0 {
		state += ",Issued"
	}
	return state
}

func apiServiceTarget(s *apiregistrationv1.APIService) string {
	if s.Spec.Service == nil {
		return "Local"
	}
	return s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
}

func apiServiceAvailable(s *apiregistrationv1.APIService) string {
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		if c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			return string(c.Status) + " (" + c.Reason + ")"
		}
		return string(c.Status)
	}
	return string(apiregistrationv1.ConditionUnknown)
}

func parentRef(a *networkingv1.IPAddress) string {
	p := a.Spec.ParentRef
	if p == nil {
		return none
	}
	text := strings.ToLower(kschema.GroupResource{Group: p.Group, Resource: p.Resource}.String())
	if p.Namespace != "" {
		text += "/" + p.Namespace
	}
	return text + "/" + p.Name
}

func flowDangling(s *flowcontrolv1.FlowSchema) string {
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			return string(c.Status)
		}
	}
	return "?"
}

// queuing prints a number of a level that queues.
func queuing(field func(*flowcontrolv1.QueuingConfiguration) int32) func(*Row) any {
	return func(r *Row) any {
		if l := r.Object.(*flowcontrolv1.PriorityLevelConfiguration).Spec.Limited; l != nil && l.LimitResponse.Queuing != nil {
			return int64(field(l.LimitResponse.Queuing))
		}
		return none
	}
}

// healthy finds the one condition that components have.
func healthy(c *corev1.ComponentStatus) corev1.ComponentCondition {
	for _, cond := range c.Conditions {
		if cond.Type == corev1.ComponentHealthy {
			return cond
		}
	}
	return corev1.ComponentCondition{}
}
