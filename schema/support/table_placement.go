package support

import corev1 "k8s.io/api/core/v1"

const (
	aWish = "A wish, not a rule: the pod may come to a worse node. Pods of one controller are spread over nodes and zones anyway."
)

var (
	_ = fields[corev1.Affinity](honoured("nodeAffinity podAffinity podAntiAffinity"))
	_ = fields[corev1.NodeAffinity](honoured("requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution"))
	_ = fields[corev1.NodeSelector](honoured("nodeSelectorTerms"))
	_ = fields[corev1.NodeSelectorTerm](honoured("matchExpressions matchFields"))
	_ = fields[corev1.NodeSelectorRequirement](honoured("key operator values"))
	_ = fields[corev1.PreferredSchedulingTerm](honoured("weight preference"))
	_ = fields[corev1.PodAffinity](
		honoured("requiredDuringSchedulingIgnoredDuringExecution"),
		ignored("preferredDuringSchedulingIgnoredDuringExecution", aWish))
	_ = fields[corev1.PodAntiAffinity](
		honoured("requiredDuringSchedulingIgnoredDuringExecution"),
		ignored("preferredDuringSchedulingIgnoredDuringExecution", aWish))
	_ = fields[corev1.PodAffinityTerm](honoured("labelSelector namespaces topologyKey namespaceSelector matchLabelKeys mismatchLabelKeys"))
	_ = fields[corev1.Toleration](honoured("key operator value effect tolerationSeconds"))
	_ = fields[corev1.TopologySpreadConstraint](
		honoured("maxSkew topologyKey labelSelector minDomains nodeAffinityPolicy nodeTaintsPolicy matchLabelKeys"),
		partly("whenUnsatisfiable", "DoNotSchedule is kept. ScheduleAnyway is a wish: pods of one controller are spread over nodes and zones anyway."))
)
