package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// thing is what a pod may refer to.
type thing int

const (
	aSecret thing = iota
	aConfigMap
	aClaim
	aServiceAccount
)

// related says whether a pod that is bound to the node refers to an object of
// the pod's namespace. It looks at the node's pods, some hundred at most.
func related(cache client.Cache, node string, t thing, key schema.Key) bool {
	for _, pod := range client.CachedIndex[*corev1.Pod](cache, client.IndexNode, node) {
		if pod.Namespace == key.Namespace && refers(pod, t, key.Name) {
			return true
		}
	}
	return false
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
		if v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName == name
		}
		return v.Ephemeral != nil && pod.Name+"-"+v.Name == name
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

// secretOfVolume returns the secret that a volume's driver needs.
func secretOfVolume(v *corev1.Volume) string {
	local := func(r *corev1.LocalObjectReference) string {
		if r == nil {
			return ""
		}
		return r.Name
	}
	switch {
	case v.Secret != nil:
		return v.Secret.SecretName
	case v.CSI != nil:
		return local(v.CSI.NodePublishSecretRef)
	case v.ISCSI != nil:
		return local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		return local(v.RBD.SecretRef)
	case v.CephFS != nil:
		return local(v.CephFS.SecretRef)
	case v.AzureFile != nil:
		return v.AzureFile.SecretName
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	}
	return ""
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
