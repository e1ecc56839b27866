package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

// FlowSchema is the judge of its kind.
var FlowSchema = &kind.Kind{
	Resource:   schema.ResourceFor[*flowcontrolv1.FlowSchema](),
	Generation: true,
	Validate:   func(o schema.Object) field.ErrorList { return flowErrors(o.(*flowcontrolv1.FlowSchema)) },
}

// PriorityLevelConfiguration is the judge of its kind.
var PriorityLevelConfiguration = &kind.Kind{
	Resource:   schema.ResourceFor[*flowcontrolv1.PriorityLevelConfiguration](),
	Generation: true,
	Validate: func(o schema.Object) field.ErrorList {
		return levelErrors(o.(*flowcontrolv1.PriorityLevelConfiguration))
	},
}

func flowErrors(f *flowcontrolv1.FlowSchema) field.ErrorList {
	s, at := &f.Spec, field.NewPath("spec")
	var errs field.ErrorList
	switch precedence := at.Child("matchingPrecedence"); {
	case s.MatchingPrecedence <= 0:
		errs = append(errs, field.Invalid(precedence, s.MatchingPrecedence, "must be a positive value"))
	case s.MatchingPrecedence > flowcontrolv1.FlowSchemaMaxMatchingPrecedence:
		errs = append(errs, field.Invalid(precedence, s.MatchingPrecedence, fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	case s.MatchingPrecedence == 1 && f.Name != flowcontrolv1.FlowSchemaNameExempt:
		errs = append(errs, field.Invalid(precedence, s.MatchingPrecedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if m := s.DistinguisherMethod; m != nil && m.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType && m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType {
		errs = append(errs, field.NotSupported(at.Child("distinguisherMethod", "type"), m.Type, []string{"ByNamespace", "ByUser"}))
	}
	level := at.Child("priorityLevelConfiguration", "name")
	if s.PriorityLevelConfiguration.Name == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		for _, msg := range validation.NameIsDNSSubdomain(s.PriorityLevelConfiguration.Name, false) {
			errs = append(errs, field.Invalid(level, s.PriorityLevelConfiguration.Name, msg))
		}
	}
	for i := range s.Rules {
		errs = append(errs, flowRuleErrors(&s.Rules[i], at.Child("rules").Index(i))...)
	}
	for _, m := range bootstrap.MandatoryFlowSchemas {
		if m.Name == f.Name && !apiequality.Semantic.DeepEqual(f.Spec, m.Spec) {
			errs = append(errs, field.Invalid(at, f.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", f.Name)))
		}
	}
	return errs
}

func flowRuleErrors(r *flowcontrolv1.PolicyRulesWithSubjects, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(at.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, flowSubjectErrors(&r.Subjects[i], at.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(at, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		rr, at := &r.ResourceRules[i], at.Child("resourceRules").Index(i)
		errs = append(errs, flowVerbErrors(rr.Verbs, at.Child("verbs"))...)
		errs = append(errs, wildcardErrors(rr.APIGroups, at.Child("apiGroups"), "resource rules must supply at least one api group", "api groups")...)
		errs = append(errs, wildcardErrors(rr.Resources, at.Child("resources"), "resource rules must supply at least one resource", "resources")...)
		errs = append(errs, flowNamespaceErrors(rr, at.Child("namespaces"))...)
	}
	for i := range r.NonResourceRules {
		nr, at := &r.NonResourceRules[i], at.Child("nonResourceRules").Index(i)
		errs = append(errs, flowVerbErrors(nr.Verbs, at.Child("verbs"))...)
		urls := at.Child("nonResourceURLs")
		errs = append(errs, wildcardErrors(nr.NonResourceURLs, urls, "nonResourceURLs must contain at least one value", "non-resource URLs")...)
		if slices.Contains(nr.NonResourceURLs, "*") {
			continue
		}
		for j, u := range nr.NonResourceURLs {
			if msg := urlFault(u); msg != "" {
				errs = append(errs, field.Invalid(urls.Index(j), u, msg))
			}
		}
	}
	return errs
}

// wildcardErrors: a list has an item, and "*" stands alone.
func wildcardErrors(list []string, at *field.Path, none, what string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(at, none)}
	case len(list) > 1 && slices.Contains(list, "*"):
		return field.ErrorList{field.Invalid(at, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

var flowVerbs = []string{"connect", "create", "delete", "deletecollection", "get", "head", "list", "options", "patch", "post", "proxy", "put", "update", "watch"}

func flowVerbErrors(verbs []string, at *field.Path) field.ErrorList {
	errs := wildcardErrors(verbs, at, "verbs must contain at least one value", "verbs")
	if slices.Contains(verbs, "*") {
		return errs
	}
	if slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(flowVerbs, v) }) {
		errs = append(errs, field.NotSupported(at, verbs, flowVerbs))
	}
	return errs
}

func flowNamespaceErrors(r *flowcontrolv1.ResourcePolicyRule, at *field.Path) field.ErrorList {
	if len(r.Namespaces) == 0 {
		if r.ClusterScope {
			return nil
		}
		return field.ErrorList{field.Required(at, "resource rules that are not cluster scoped must supply at least one namespace")}
	}
	errs := wildcardErrors(r.Namespaces, at, "", "namespaces")
	if slices.Contains(r.Namespaces, "*") {
		return errs
	}
	for i, ns := range r.Namespaces {
		for _, msg := range validation.ValidateNamespaceName(ns, false) {
			errs = append(errs, field.Invalid(at.Index(i), ns, "each member of this list must be '*' or a DNS-1123 label; "+msg))
		}
	}
	return errs
}

// urlFault says what is wrong with a path of a rule; "" nothing.
func urlFault(path string) string {
	stars := strings.Count(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case path == "/":
		return ""
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}

// flowSubjectErrors wants the part of the subject's kind, and no other.
func flowSubjectErrors(s *flowcontrolv1.Subject, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	part := func(kind flowcontrolv1.SubjectKind, name string, have bool, check func(*field.Path)) {
		at := at.Child(name)
		switch {
		case s.Kind == kind && !have:
			errs = append(errs, field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", name, kind)))
		case s.Kind == kind:
			check(at)
		case have && slices.Contains([]string{"Group", "ServiceAccount", "User"}, string(s.Kind)):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("%s is forbidden when subject kind is not '%s'", name, kind)))
		}
		found = found || s.Kind == kind
	}
	named := func(name func() string) func(*field.Path) {
		return func(at *field.Path) {
			if name() == "" {
				errs = append(errs, field.Required(at.Child("name"), ""))
			}
		}
	}
	part(flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(at *field.Path) {
		errs = append(errs, flowAccountErrors(s.ServiceAccount, at)...)
	})
	part(flowcontrolv1.SubjectKindUser, "user", s.User != nil, named(func() string { return s.User.Name }))
	part(flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, named(func() string { return s.Group.Name }))
	if !found {
		errs = append(errs, field.NotSupported(at.Child("kind"), s.Kind, []string{"Group", "ServiceAccount", "User"}))
	}
	return errs
}

func flowAccountErrors(s *flowcontrolv1.ServiceAccountSubject, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s.Name {
	case "":
		errs = append(errs, field.Required(at.Child("name"), ""))
	case flowcontrolv1.NameAll:
	default:
		for _, msg := range validation.ValidateServiceAccountName(s.Name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), s.Name, msg))
		}
	}
	if s.Namespace == "" {
		return append(errs, field.Required(at.Child("namespace"), "must specify namespace for service account"))
	}
	for _, msg := range validation.ValidateNamespaceName(s.Namespace, false) {
		errs = append(errs, field.Invalid(at.Child("namespace"), s.Namespace, msg))
	}
	return errs
}

func levelErrors(l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	const exempt = flowcontrolv1.PriorityLevelConfigurationNameExempt
	s, at := &l.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if (l.Name == exempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(at.Child("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(at.Child("limited"), "must be nil if the type is not Limited"))
		}
		if e := s.Exempt; e != nil {
			errs = append(errs, shareErrors(e.NominalConcurrencyShares, e.LendablePercent, at.Child("exempt"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			errs = append(errs, field.Forbidden(at.Child("exempt"), "must be nil if the type is Limited"))
		}
		if s.Limited == nil {
			errs = append(errs, field.Required(at.Child("limited"), "must not be empty when type is Limited"))
		} else {
			errs = append(errs, limitedErrors(s.Limited, at.Child("limited"))...)
		}
	case "":
		errs = append(errs, field.Required(at.Child("type"), ""))
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), s.Type, []string{"Exempt", "Limited"}))
	}
	for _, m := range bootstrap.MandatoryPriorityLevelConfigurations {
		if m.Name != l.Name {
			continue
		}
		have, text := *l.Spec.DeepCopy(), "spec of '%s' must equal the fixed value"
		if l.Name == exempt { // its shares may be set
			have.Exempt, text = m.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if !apiequality.Semantic.DeepEqual(have, m.Spec) {
			errs = append(errs, field.Invalid(at, l.Spec, fmt.Sprintf(text, l.Name)))
		}
	}
	return errs
}

func shareErrors(shares, lendable *int32, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if shares != nil && *shares < 0 {
		errs = append(errs, field.Invalid(at.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		errs = append(errs, field.Invalid(at.Child("lendablePercent"), *lendable, "must be between 0 and 100, inclusive"))
	}
	return errs
}

// maxQueues bounds the queues of one level.
const maxQueues = 10 * 1000 * 1000

func limitedErrors(l *flowcontrolv1.LimitedPriorityLevelConfiguration, at *field.Path) field.ErrorList {
	errs := shareErrors(l.NominalConcurrencyShares, l.LendablePercent, at)
	if p := l.BorrowingLimitPercent; p != nil && *p < 0 {
		errs = append(errs, field.Invalid(at.Child("borrowingLimitPercent"), *p, "if specified, must be a non-negative integer"))
	}
	at = at.Child("limitResponse")
	switch r := l.LimitResponse; r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			errs = append(errs, field.Forbidden(at.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			errs = append(errs, field.Required(at.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
		} else {
			errs = append(errs, queuingErrors(r.Queuing, at.Child("queuing"))...)
		}
	case "":
		errs = append(errs, field.Required(at.Child("type"), ""))
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), r.Type, []string{"Queue", "Reject"}))
	}
	return errs
}

func queuingErrors(q *flowcontrolv1.QueuingConfiguration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(at.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	if q.Queues <= 0 {
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, "must be positive"))
	} else if q.Queues > maxQueues {
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := at.Child("handSize")
	switch {
	case q.HandSize <= 0:
		return append(errs, field.Invalid(hand, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		return append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	}
	if bits := shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)); bits > shufflesharding.MaxHashBits {
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf(
			"required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, shufflesharding.MaxHashBits)))
	}
	return errs
}
