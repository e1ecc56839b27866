package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-os/writ/controlplane/admission/limit"
	"github.com/writ-os/writ/controlplane/admission/podsecurity"
	"github.com/writ-os/writ/controlplane/admission/policy"
	"github.com/writ-os/writ/controlplane/admission/quota"
	"github.com/writ-os/writ/controlplane/admission/webhook"
	"github.com/writ-os/writ/controlplane/registry"
)

// plugin is one entry of upstream's list of admission plugins.
type plugin struct {
	name string
	on   bool // by default
	// make returns the plugin; nil where there is nothing to do: the kinds that
	// it is about are behind feature gates that are off.
	make func(*made) registry.Admission
	// absent says why it cannot be enabled; "" it can.
	absent string
}

// made is what plugins are made of.
type made struct {
	Config
	mutatingWebhooks   *webhook.Mutating
	validatingWebhooks *webhook.Validating
	mutatingPolicies   *policy.Mutating
	validatingPolicies *policy.Validating
	security           *podsecurity.Plugin
}

func always(p registry.Admission) func(*made) registry.Admission {
	return func(*made) registry.Admission { return p }
}

func gated(*made) registry.Admission { return nil }

// ordered are all plugins of upstream v1.36 in the order in which they run. On
// by default are upstream's, and NodeRestriction: nodes here always are what
// its authorizer expects.
var ordered = []plugin{
	{name: "AlwaysAdmit", make: always(&Always{})},
	{name: "NamespaceAutoProvision", make: always(&Autoprovision{})},
	{name: "NamespaceLifecycle", on: true, make: always(&NamespaceLifecycle{})},
	{name: "NamespaceExists", make: always(&NamespaceExists{})},
	{name: "LimitPodHardAntiAffinityTopology", make: always(&AntiAffinity{})},
	{name: "LimitRanger", on: true, make: always(&limit.Ranger{})},
	{name: "ServiceAccount", on: true, make: always(&ServiceAccount{})},
	{name: "NodeRestriction", on: true, make: func(m *made) registry.Admission { return &NodeRestriction{Authorizer: m.Authorizer} }},
	{name: "TaintNodesByCondition", on: true, make: always(&TaintNodes{})},
	{name: "AlwaysPullImages", make: always(&AlwaysPull{})},
	{name: "ImagePolicyWebhook", absent: "its API never left alpha; use a ValidatingWebhookConfiguration for pods"},
	{name: "PodSecurity", on: true, make: func(m *made) registry.Admission { return m.security }},
	{name: "PodNodeSelector", make: func(m *made) registry.Admission { return &NodeSelectors{Selectors: m.NodeSelectors} }},
	{name: "Priority", on: true, make: always(&Priority{})},
	{name: "DefaultTolerationSeconds", on: true, make: func(m *made) registry.Admission {
		return &Tolerations{NotReady: m.NotReadySeconds, Unreachable: m.UnreachableSeconds}
	}},
	{name: "PodTolerationRestriction", make: func(m *made) registry.Admission {
		return &TolerationRestriction{Default: m.DefaultTolerations, Whitelist: m.TolerationsWhitelist}
	}},
	{name: "EventRateLimit", make: func(m *made) registry.Admission { return newEventRateLimit(m.EventLimits) }},
	{name: "ExtendedResourceToleration", make: always(&ExtendedToleration{})},
	{name: "DefaultStorageClass", on: true, make: always(&DefaultStorageClass{})},
	{name: "StorageObjectInUseProtection", on: true, make: always(&StorageProtection{})},
	{name: "PodGroupProtection", on: true, make: gated},
	{name: "OwnerReferencesPermissionEnforcement", make: func(m *made) registry.Admission {
		return &Owners{Authorizer: m.Authorizer, Catalog: m.Catalog}
	}},
	{name: "PersistentVolumeClaimResize", on: true, make: always(&ClaimResize{})},
	{name: "RuntimeClass", on: true, make: always(&RuntimeClass{})},
	{name: "CertificateApproval", on: true, make: func(m *made) registry.Admission { return &CertificateApproval{Authorizer: m.Authorizer} }},
	{name: "CertificateSigning", on: true, make: func(m *made) registry.Admission { return &CertificateSigning{Authorizer: m.Authorizer} }},
	{name: "ClusterTrustBundleAttest", on: true, make: gated},
	{name: "CertificateSubjectRestriction", on: true, make: always(&CertificateSubject{})},
	{name: "DefaultIngressClass", on: true, make: always(&DefaultIngressClass{})},
	{name: "DenyServiceExternalIPs", make: always(&ExternalIPs{})},
	{name: "PodTopologyLabels", on: true, make: always(&TopologyLabels{})},
	{name: "PodGroupWorkloadExists", on: true, make: gated},
	{name: "NodeDeclaredFeatureValidator", on: true, make: func(*made) registry.Admission { return newDeclaredFeatures() }},
	{name: "JobValidation", on: true, make: gated},
	{name: "PodResizeValidator", on: true, make: always(&PodResize{})},
	{name: "MutatingAdmissionPolicy", on: true, make: func(m *made) registry.Admission { return m.mutatingPolicies }},
	{name: "MutatingAdmissionWebhook", on: true, make: func(m *made) registry.Admission { return m.mutatingWebhooks }},
	{name: "ValidatingAdmissionPolicy", on: true, make: func(m *made) registry.Admission { return m.validatingPolicies }},
	{name: "ValidatingAdmissionWebhook", on: true, make: func(m *made) registry.Admission { return m.validatingWebhooks }},
	{name: "ResourceQuota", on: true, make: always(&quota.Plugin{})},
	{name: "AlwaysDeny", make: always(&Always{deny: true})},
}

// Names are the names of all plugins in their order.
func Names() []string {
	out := make([]string, len(ordered))
	for i, p := range ordered {
		out[i] = p.name
	}
	return out
}

// CheckNames refuses lists for --enable-admission-plugins and
// --disable-admission-plugins that name what there is not, or the same twice.
func CheckNames(enable, disable []string) error {
	for _, l := range []struct {
		flag string
		list []string
	}{{"enable-admission-plugins", enable}, {"disable-admission-plugins", disable}} {
		for _, name := range l.list {
			if !slices.ContainsFunc(ordered, func(p plugin) bool { return p.name == name }) {
				return fmt.Errorf("%s plugin %q is unknown; known are %s", l.flag, name, strings.Join(Names(), ", "))
			}
		}
	}
	for _, name := range enable {
		i := slices.IndexFunc(ordered, func(p plugin) bool { return p.name == name })
		if why := ordered[i].absent; why != "" {
			return fmt.Errorf("enable-admission-plugins plugin %q is not offered: %s", name, why)
		}
		if slices.Contains(disable, name) {
			return fmt.Errorf("%s in enable-admission-plugins and disable-admission-plugins overlapped", name)
		}
	}
	return nil
}

// enabled says whether a plugin runs.
func (p *plugin) enabled(cfg *Config) bool {
	switch {
	case p.make == nil:
		return false
	case slices.Contains(cfg.Enable, p.name):
		return true
	case slices.Contains(cfg.Disable, p.name):
		return false
	}
	return p.on
}
