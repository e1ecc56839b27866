package node

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

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
	case v.Cinder != nil:
		return local(v.Cinder.SecretRef)
	case v.AzureFile != nil:
		return v.AzureFile.SecretName
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	case v.ScaleIO != nil:
		return local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		return local(v.StorageOS.SecretRef)
	}
	return ""
}

// secretsOfPV returns the secrets that a node needs for a bound volume. Where
// the volume names no namespace it is that of its claim. Those that only the
// controller of a CSI driver needs are left out.
func secretsOfPV(pv *corev1.PersistentVolume) []schema.Key {
	var out []schema.Key
	claim := pv.Spec.ClaimRef.Namespace
	add := func(r *corev1.SecretReference) {
		if r != nil && r.Name != "" {
			out = append(out, schema.Key{Namespace: cmp.Or(r.Namespace, claim), Name: r.Name})
		}
	}
	switch s := &pv.Spec.PersistentVolumeSource; {
	case s.AzureFile != nil:
		ns := claim
		if s.AzureFile.SecretNamespace != nil && *s.AzureFile.SecretNamespace != "" {
			ns = *s.AzureFile.SecretNamespace
		}
		add(&corev1.SecretReference{Namespace: ns, Name: s.AzureFile.SecretName})
	case s.CephFS != nil:
		add(s.CephFS.SecretRef)
	case s.Cinder != nil:
		add(s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		add(s.FlexVolume.SecretRef)
	case s.RBD != nil:
		add(s.RBD.SecretRef)
	case s.ScaleIO != nil:
		add(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		add(s.ISCSI.SecretRef)
	case s.StorageOS != nil && s.StorageOS.SecretRef != nil:
		add(&corev1.SecretReference{Namespace: s.StorageOS.SecretRef.Namespace, Name: s.StorageOS.SecretRef.Name})
	case s.CSI != nil:
		add(s.CSI.NodePublishSecretRef)
		add(s.CSI.NodeStageSecretRef)
		add(s.CSI.NodeExpandSecretRef)
	}
	return out
}
