package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// thing is what a pod may refer to.
type thing int

const (
	aSecret thing = iota
	aConfigMap
	aClaim
	aServiceAccount
	aResourceClaim
)

// related says whether a pod that is bound to the node refers to an object of
// the pod's namespace. It looks at the node's pods, some hundred at most.
func related(cache client.Cache, node string, t thing, key schema.Key) bool {
	for _, pod := range client.CachedIndex[*corev1.Pod](cache, client.IndexNode, node) {
		// A node makes its mirror pods by itself: they must not open other
		// objects to it, whatever they refer to.
		if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
			continue
		}
		if pod.Namespace == key.Namespace && refers(pod, t, key.Name) {
			return true
		}
	}
	return false
}

// volumeSecret says whether a volume that a pod of the node has claimed needs
// a secret on the node. The secret's namespace may be another than the pod's.
func volumeSecret(cache client.Cache, node string, key schema.Key) bool {
	for _, pod := range client.CachedIndex[*corev1.Pod](cache, client.IndexNode, node) {
		if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
			continue
		}
		for i := range pod.Spec.Volumes {
			claim := claimOf(pod, &pod.Spec.Volumes[i])
			if claim == "" {
				continue
			}
			pvc, ok := client.Cached[*corev1.PersistentVolumeClaim](cache, schema.Key{Namespace: pod.Namespace, Name: claim})
			if !ok || pvc.Spec.VolumeName == "" {
				continue
			}
			pv, ok := client.Cached[*corev1.PersistentVolume](cache, schema.Key{Name: pvc.Spec.VolumeName})
			if ok && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == pod.Namespace && pv.Spec.ClaimRef.Name == claim &&
				slices.Contains(secretsOfPV(pv), key) {
				return true
			}
		}
	}
	return false
}

// poolSecret says whether the pool of a node names a secret for its registries.
// Which pool that is must not be for the node to say.
func poolSecret(cache client.Cache, node string, key schema.Key) bool {
	n, ok := client.Cached[*corev1.Node](cache, schema.Key{Name: node})
	if !ok {
		return false
	}
	pool, _ := v1alpha1.NewMembership(client.CachedList[*v1alpha1.NodePool](cache, "")).Sure(n.Labels)
	if pool == nil || !pool.DeletionTimestamp.IsZero() {
		return false
	}
	name := key.Namespace + "/" + key.Name
	return slices.ContainsFunc(pool.Spec.Registries, func(r v1alpha1.NodeRegistry) bool { return r.Secret == name })
}

// volumeRelated says whether a pod of the node has a claim that is bound to a
// PersistentVolume, or whether the volume needs a secret.
func volumeRelated(cache client.Cache, node, volume string) bool {
	pv, ok := client.Cached[*corev1.PersistentVolume](cache, schema.Key{Name: volume})
	if !ok || pv.Spec.ClaimRef == nil {
		return false
	}
	return related(cache, node, aClaim, schema.Key{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name})
}

func refers(pod *corev1.Pod, t thing, name string) bool {
	switch t {
	case aServiceAccount:
		return pod.Spec.ServiceAccountName == name
	case aResourceClaim:
		return claimsResource(pod, name)
	case aSecret:
		for _, s := range pod.Spec.ImagePullSecrets {
			if s.Name == name {
				return true
			}
		}
	}
	for i := range pod.Spec.Volumes {
		if volumeRefers(pod, &pod.Spec.Volumes[i], t, name) {
			return true
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if envRefers(list[i].Env, list[i].EnvFrom, t, name) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if envRefers(c.Env, c.EnvFrom, t, name) {
			return true
		}
	}
	return false
}

func volumeRefers(pod *corev1.Pod, v *corev1.Volume, t thing, name string) bool {
	switch t {
	case aSecret:
		if secretOfVolume(v) == name {
			return true
		}
	case aConfigMap:
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
	case aClaim:
		return claimOf(pod, v) == name
	}
	if v.Projected == nil {
		return false
	}
	for _, s := range v.Projected.Sources {
		if t == aSecret && s.Secret != nil && s.Secret.Name == name ||
			t == aConfigMap && s.ConfigMap != nil && s.ConfigMap.Name == name {
			return true
		}
	}
	return false
}

// claimOf returns the claim behind a volume, "" when there is none.
func claimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// claimsResource says whether a pod uses a ResourceClaim, by name or made for it.
func claimsResource(pod *corev1.Pod, name string) bool {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil && *c.ResourceClaimName == name {
			return true
		}
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		for _, s := range pod.Status.ResourceClaimStatuses {
			if s.Name == c.Name && s.ResourceClaimName != nil && *s.ResourceClaimName == name {
				return true
			}
		}
	}
	e := pod.Status.ExtendedResourceClaimStatus
	return e != nil && e.ResourceClaimName == name && name != ""
}

func envRefers(env []corev1.EnvVar, from []corev1.EnvFromSource, t thing, name string) bool {
	for i := range env {
		v := env[i].ValueFrom
		if v == nil {
			continue
		}
		if t == aSecret && v.SecretKeyRef != nil && v.SecretKeyRef.Name == name ||
			t == aConfigMap && v.ConfigMapKeyRef != nil && v.ConfigMapKeyRef.Name == name {
			return true
		}
	}
	for i := range from {
		if t == aSecret && from[i].SecretRef != nil && from[i].SecretRef.Name == name ||
			t == aConfigMap && from[i].ConfigMapRef != nil && from[i].ConfigMapRef.Name == name {
			return true
		}
	}
	return false
}
