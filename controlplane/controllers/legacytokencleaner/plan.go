package legacytokencleaner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// lastUsed is the day on which a token was used last; the authentication
	// writes it.
	lastUsed = "kubernetes.io/legacy-token-last-used"
	// invalidSince is the day since which a token is not accepted.
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
)

// stale says whether a Secret is a token that is older than unused and has not
// been used for that long. A day that cannot be read says nothing.
func stale(s *corev1.Secret, now time.Time, unused time.Duration) bool {
	limit := now.Add(-unused)
	if s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil || !s.CreationTimestamp.Time.Before(limit) {
		return false
	}
	last, ok := s.Labels[lastUsed]
	if !ok {
		return true
	}
	_, err := time.Parse(time.DateOnly, last)
	return err == nil && last < limit.Format(time.DateOnly)
}

// secretsOf are the names of the Secrets that pods refer to.
func secretsOf(pods []*corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, p := range pods {
		for _, ref := range p.Spec.ImagePullSecrets {
			names[ref.Name] = true
		}
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				ofEnv(names, list[i].Env, list[i].EnvFrom)
			}
		}
		for i := range p.Spec.EphemeralContainers {
			ofEnv(names, p.Spec.EphemeralContainers[i].Env, p.Spec.EphemeralContainers[i].EnvFrom)
		}
		for i := range p.Spec.Volumes {
			ofVolume(names, &p.Spec.Volumes[i])
		}
	}
	return names
}

func ofEnv(names map[string]bool, env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for i := range from {
		if ref := from[i].SecretRef; ref != nil {
			names[ref.Name] = true
		}
	}
	for i := range env {
		if v := env[i].ValueFrom; v != nil && v.SecretKeyRef != nil {
			names[v.SecretKeyRef.Name] = true
		}
	}
}

func ofVolume(names map[string]bool, v *corev1.Volume) {
	local := func(r *corev1.LocalObjectReference) {
		if r != nil {
			names[r.Name] = true
		}
	}
	switch {
	case v.Secret != nil:
		names[v.Secret.SecretName] = true
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].Secret; s != nil {
				names[s.Name] = true
			}
		}
	case v.AzureFile != nil:
		names[v.AzureFile.SecretName] = true
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.ScaleIO != nil:
		local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		local(v.StorageOS.SecretRef)
	}
}
