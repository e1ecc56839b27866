package custom

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PrepareDelete makes a definition whose deletion begins wait for that of its
// instances.
func PrepareDelete(def *apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	if !slices.Contains(def.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		def.Finalizers = append(def.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	cond := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: now,
		Reason:  "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}
	for i := range def.Status.Conditions {
		if c := &def.Status.Conditions[i]; c.Type == cond.Type {
			if c.Status == cond.Status {
				cond.LastTransitionTime = c.LastTransitionTime
			}
			*c = cond
			return
		}
	}
	def.Status.Conditions = append(def.Status.Conditions, cond)
}
