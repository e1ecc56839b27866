package support

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	noSuchVolume    = "no node mounts this kind of volume, so the pod would never start"
	insteadOfVolume = "mount it on the node and use a hostPath"
)

var (
	_ = fields[corev1.Volume](honoured("name VolumeSource"))
	_ = fields[corev1.VolumeSource](
		honoured("hostPath emptyDir secret downwardAPI configMap projected"),
		warned("persistentVolumeClaim ephemeral", noVolumes, insteadOfClaims),
		refused("csi", noSuchVolume, "leave it out").onlyGit(),
		refused("nfs iscsi fc", noSuchVolume, insteadOfVolume),
		refused("image", noSuchVolume, "copy the files from an init container of that image into an emptyDir"),
		refused("gitRepo", noSuchVolume+"; Kubernetes has taken it away", "clone in an init container into an emptyDir"),
		refused(`gcePersistentDisk awsElasticBlockStore glusterfs rbd flexVolume cinder cephfs flocker azureFile vsphereVolume quobyte azureDisk
			photonPersistentDisk portworxVolume scaleIO storageos`, noSuchVolume, insteadOfVolume),
	)
	_ = fields[corev1.HostPathVolumeSource](honoured("path type"))
	_ = fields[corev1.EmptyDirVolumeSource](
		honoured("medium"),
		refused("medium", "no node has huge pages to give, so the pod would never start", "use the medium Memory").
			when("`HugePages` and those of a size", func(v reflect.Value) bool { return strings.HasPrefix(v.String(), "HugePages") }).leftOut(),
		partly("sizeLimit", "In memory it is the size of the file system. On disk nothing measures it: ephemeral-storage can be requested."),
	)
	_ = fields[corev1.SecretVolumeSource](honoured("secretName items defaultMode optional"))
	_ = fields[corev1.ConfigMapVolumeSource](honoured("LocalObjectReference items defaultMode optional"))
	_ = fields[corev1.KeyToPath](honoured("key path mode"))
	_ = fields[corev1.DownwardAPIVolumeSource](honoured("items defaultMode"))
	_ = fields[corev1.DownwardAPIVolumeFile](honoured("path fieldRef resourceFieldRef mode"))
	_ = fields[corev1.ProjectedVolumeSource](honoured("sources defaultMode"))
	_ = fields[corev1.VolumeProjection](
		honoured("secret downwardAPI configMap serviceAccountToken"),
		refused("clusterTrustBundle", "no node reads trust bundles, so the pod would never start", "keep the certificates in a ConfigMap"),
		refused("podCertificate", "no node asks for certificates of pods, so the pod would never start", "keep the certificate in a Secret"),
	)
	_ = fields[corev1.SecretProjection](honoured("LocalObjectReference items optional"))
	_ = fields[corev1.ConfigMapProjection](honoured("LocalObjectReference items optional"))
	_ = fields[corev1.DownwardAPIProjection](honoured("items"))
	_ = fields[corev1.ServiceAccountTokenProjection](honoured("audience expirationSeconds path"))
)
