// Package podstandard holds pods against the Pod Security Standards.
//
// The checks are upstream's own library; which level counts in a namespace, and
// whom none does, is here, and so is the field that breaks a check, which that
// library does not say. Admission asks when a pod is made, the reconciler when a
// commit declares what will make pods: both hear the same.
//
// The package watches nothing, owns nothing, and is made of functions of values.
package podstandard

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Config says what applies where labels say nothing, and to whom nothing
// applies. The zero value is upstream's default: privileged, no exemptions.
type Config struct {
	Defaults   api.Policy
	Users      []string
	Namespaces []string
	// RuntimeClasses are those whose pods are isolated by other means.
	RuntimeClasses []string
}

// Baseline is what a cluster runs with: namespaces that say nothing enforce
// baseline, and warn of templates whose pods that would refuse. One label opts
// out: pod-security.kubernetes.io/enforce: privileged (upstream's default). The
// system's own namespaces are exempt: what runs in them runs the nodes.
func Baseline() Config {
	baseline := api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}
	return Config{
		Defaults:   api.Policy{Enforce: baseline, Audit: baseline, Warn: baseline},
		Namespaces: []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease},
	}
}

// Judge answers by one Config. It may be used by several goroutines.
type Judge struct {
	cfg    Config
	all    policy.Evaluator
	checks []policy.Check // by ID, those of baseline first, as all has them
}

// New returns a judge. The error is one of the library's own checks.
func New(cfg Config) (*Judge, error) {
	for _, lv := range []*api.LevelVersion{&cfg.Defaults.Enforce, &cfg.Defaults.Audit, &cfg.Defaults.Warn} {
		if lv.Level == "" {
			*lv = api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
		}
	}
	j := &Judge{cfg: cfg, checks: policy.DefaultChecks()}
	slices.SortFunc(j.checks, func(a, b policy.Check) int {
		if a.Level != b.Level {
			return api.CompareLevels(a.Level, b.Level)
		}
		return compare(a.ID, b.ID)
	})
	var err error
	if j.all, err = policy.NewEvaluator(policy.DefaultChecks(), nil); err != nil {
		return nil, fmt.Errorf("make pod security checks: %w", err)
	}
	return j, nil
}

func compare(a, b policy.CheckID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Default is what a namespace enforces that says nothing.
func (j *Judge) Default() api.LevelVersion { return j.cfg.Defaults.Enforce }

// Defaults are all modes of a namespace that says nothing.
func (j *Judge) Defaults() api.Policy { return j.cfg.Defaults }

// Policy is what the labels of a namespace ask for, and what is wrong with
// them. A level that cannot be read enforces the strictest one.
func (j *Judge) Policy(labels map[string]string) (api.Policy, field.ErrorList) {
	return api.PolicyToEvaluate(labels, j.cfg.Defaults)
}

// LabelErrors is what is wrong with the labels of a namespace by itself: levels and
// versions that nobody can read.
func LabelErrors(labels map[string]string) field.ErrorList {
	_, errs := api.PolicyToEvaluate(labels, api.Policy{})
	return errs
}

// ExemptNamespace says whether nothing applies in a namespace.
func (j *Judge) ExemptNamespace(name string) bool { return slices.Contains(j.cfg.Namespaces, name) }

// ExemptUser says whether nothing applies to what a user makes.
func (j *Judge) ExemptUser(name string) bool {
	return name != "" && slices.Contains(j.cfg.Users, name)
}

// ExemptRuntime says whether nothing applies to pods of a runtime class.
func (j *Judge) ExemptRuntime(class *string) bool {
	return class != nil && slices.Contains(j.cfg.RuntimeClasses, *class)
}

// Evaluate is what a level says of a pod, in upstream's words.
func (j *Judge) Evaluate(lv api.LevelVersion, meta *metav1.ObjectMeta, spec *corev1.PodSpec) policy.AggregateCheckResult {
	return policy.AggregateCheckResults(j.all.EvaluatePod(lv, meta, spec))
}

// Violation is one check that a pod breaks, at one field.
type Violation struct {
	Check string
	// Path is below the spec of the pod; nil where no field is to blame. It may
	// be that of a field which is missing.
	Path *field.Path
	// Reason and Detail are upstream's words, of this field alone.
	Reason, Detail string

	at []any // Path as steps
}

// Text is the reason with its detail.
func (v *Violation) Text() string {
	if v.Detail == "" {
		return v.Reason
	}
	return v.Reason + " (" + v.Detail + ")"
}

// Violations are the fields by which a pod breaks a level, in the order of
// Evaluate; none where that allows it.
func (j *Judge) Violations(lv api.LevelVersion, meta *metav1.ObjectMeta, spec *corev1.PodSpec) (out []Violation) {
	if r := j.Evaluate(lv, meta, spec); r.Allowed {
		return nil
	}
	for _, c := range j.applying(lv) {
		if r := c.check(meta, spec); !r.Allowed {
			out = append(out, c.violations(spec, r)...)
		}
	}
	return out
}

// versioned is a check as some version of a level has it.
type versioned struct {
	id    policy.CheckID
	check policy.CheckPodFn
}

// applying are the checks of a level: those of baseline hold for restricted too,
// unless a check of that takes their place.
func (j *Judge) applying(lv api.LevelVersion) (out []versioned) {
	overridden := map[policy.CheckID]bool{}
	for i := range j.checks {
		c := &j.checks[i]
		if api.CompareLevels(c.Level, lv.Level) > 0 {
			continue
		}
		v := inVersion(c, lv.Version)
		if v == nil {
			continue
		}
		out = append(out, versioned{c.ID, v.CheckPod})
		for _, id := range v.OverrideCheckIDs {
			overridden[id] = true
		}
	}
	return slices.DeleteFunc(out, func(c versioned) bool { return overridden[c.id] })
}

// inVersion is the newest form of a check that a version has; nil: none.
func inVersion(c *policy.Check, v api.Version) (found *policy.VersionedCheck) {
	for i := range c.Versions {
		if !v.Older(c.Versions[i].MinimumVersion) {
			found = &c.Versions[i]
		}
	}
	return found
}
