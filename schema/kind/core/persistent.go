package core

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// VolumeErrors are what is wrong with a persistent volume, besides its
// metadata.
func VolumeErrors(o *corev1.PersistentVolume) field.ErrorList {
	c, at, s := &check{}, field.NewPath("spec"), &o.Spec
	if len(s.AccessModes) == 0 {
		c.required(at.Child("accessModes"), "")
	}
	c.accessModes(s.AccessModes, at.Child("accessModes"))
	capacity := at.Child("capacity")
	if len(s.Capacity) == 0 {
		c.required(capacity, "")
	}
	if _, ok := s.Capacity[corev1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		c.add(field.NotSupported(capacity, s.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, n := range sorted(s.Capacity) {
		q := s.Capacity[n]
		c.basic(capacity.Key(string(n)), q.Value())
		c.positiveQuantity(capacity.Key(string(n)), q)
	}
	if p := s.PersistentVolumeReclaimPolicy; p != "" {
		oneOf(c, at.Child("persistentVolumeReclaimPolicy"), p,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	if n := s.NodeAffinity; n != nil {
		at := at.Child("nodeAffinity", "required")
		if n.Required == nil {
			c.required(at, "must specify required node constraints")
		} else {
			c.nodeSelector(n.Required, at)
		}
	}
	c.volumeSources(s, at)
	if h := s.HostPath; h != nil && path.Clean(h.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		c.forbid(at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'")
	}
	c.className(at.Child("storageClassName"), &s.StorageClassName)
	if s.VolumeMode != nil {
		oneOf(c, at.Child("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	if a := s.VolumeAttributesClassName; a != nil {
		if *a == "" {
			c.required(at.Child("volumeAttributesClassName"), "an empty string is disallowed")
		}
		c.className(at.Child("volumeAttributesClassName"), a)
		if s.CSI == nil {
			c.required(at.Child("csi"), "has to be specified when using volumeAttributesClassName")
		}
	}
	return c.errs
}

// volumeSources checks where a persistent volume is.
func (c *check) volumeSources(v *corev1.PersistentVolumeSpec, at *field.Path) {
	s := &sources{check: c, at: at}
	s.one("hostPath", v.HostPath != nil, func(at *field.Path) { c.hostPath(v.HostPath, at) })
	s.one("gcePersistentDisk", v.GCEPersistentDisk != nil, func(*field.Path) { c.gceDisk(v.GCEPersistentDisk, at.Child("persistentDisk")) })
	s.one("awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(at *field.Path) { c.awsDisk(v.AWSElasticBlockStore, at) })
	if g := v.Glusterfs; g != nil {
		s.need("glusterfs", true, "endpoints", g.EndpointsName, "path", g.Path)
	}
	s.one("flocker", v.Flocker != nil, func(at *field.Path) { c.flocker(v.Flocker, at) })
	s.one("nfs", v.NFS != nil, func(at *field.Path) { c.nfs(v.NFS, at) })
	if r := v.RBD; r != nil {
		s.one("rbd", true, func(at *field.Path) { c.monitors(r.CephMonitors, at); c.nonEmpty(at.Child("image"), r.RBDImage) })
	}
	s.one("quobyte", v.Quobyte != nil, func(at *field.Path) { c.quobyte(v.Quobyte, at) })
	if f := v.CephFS; f != nil {
		s.one("cephfs", true, func(at *field.Path) { c.monitors(f.Monitors, at) }, "cephFS")
	}
	s.one("iscsi", v.ISCSI != nil, func(at *field.Path) { c.iscsi(v.ISCSI.TargetPortal, v.ISCSI.IQN, v.ISCSI.Lun, at) })
	if d := v.Cinder; d != nil {
		s.need("cinder", true, "volumeID", d.VolumeID)
	}
	s.one("fc", v.FC != nil, func(at *field.Path) { c.fibre(v.FC, at) })
	if f := v.FlexVolume; f != nil {
		s.n++
		c.flex(f.Driver, f.Options, at.Child("flexVolume"))
	}
	if a := v.AzureFile; a != nil {
		s.need("azureFile", true, "secretName", a.SecretName, "shareName", a.ShareName)
	}
	if d := v.VsphereVolume; d != nil {
		s.need("vsphereVolume", true, "volumePath", d.VolumePath)
	}
	if d := v.PhotonPersistentDisk; d != nil {
		s.need("photonPersistentDisk", true, "pdID", d.PdID)
	}
	if d := v.PortworxVolume; d != nil {
		s.need("portworxVolume", true, "volumeID", d.VolumeID)
	}
	s.one("azureDisk", v.AzureDisk != nil, func(at *field.Path) { c.azureDisk(v.AzureDisk, at) })
	if d := v.ScaleIO; d != nil {
		s.need("scaleIO", true, "gateway", d.Gateway, "system", d.System, "volumeName", d.VolumeName)
	}
	s.one("local", v.Local != nil, func(path *field.Path) {
		c.nonEmpty(path.Child("path"), v.Local.Path)
		c.noBacksteps(path.Child("path"), v.Local.Path)
		if v.NodeAffinity == nil {
			c.required(at.Child("nodeAffinity"), "Local volume requires node affinity")
		}
	})
	if d := v.StorageOS; d != nil {
		s.need("storageos", true, "volumeName", d.VolumeName)
	}
	s.one("csi", v.CSI != nil, func(at *field.Path) { c.csiVolume(v.CSI, at) })
	if s.n == 0 {
		c.required(at, "must specify a volume type")
	}
}

func (c *check) csiVolume(s *corev1.CSIPersistentVolumeSource, at *field.Path) {
	c.driver(at.Child("driver"), s.Driver)
	c.nonEmpty(at.Child("volumeHandle"), s.VolumeHandle)
	secret := func(ref *corev1.SecretReference, at *field.Path) {
		if ref == nil {
			return
		}
		if ref.Name == "" {
			c.required(at.Child("name"), "")
		} else {
			c.subdomain(at.Child("name"), ref.Name)
		}
		if ref.Namespace == "" {
			c.required(at.Child("namespace"), "")
		} else {
			c.label(at.Child("namespace"), ref.Namespace)
		}
	}
	secret(s.ControllerPublishSecretRef, at.Child("controllerPublishSecretRef"))
	secret(s.ControllerExpandSecretRef, at.Child("controllerExpandSecretRef"))
	secret(s.NodePublishSecretRef, at.Child("nodePublishSecretRef"))
	secret(s.NodeExpandSecretRef, at.Child("nodeExpandSecretRef"))
}

// VolumeUpdateErrors are what is wrong with a change of a persistent volume,
// besides what is wrong with it as it is.
func VolumeUpdateErrors(o, old *corev1.PersistentVolume) field.ErrorList {
	c, at := &check{}, field.NewPath("spec")
	is, was := o.Spec.PersistentVolumeSource.DeepCopy(), &old.Spec.PersistentVolumeSource
	if is.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		is.CSI.ControllerExpandSecretRef = nil // may be set later, once
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		c.forbid(at.Child("persistentvolumesource"), fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%s", Diff(was, is)))
	}
	c.add(apivalidation.ValidateImmutableField(o.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil && !apiequality.Semantic.DeepEqual(stableLabels(o.Spec.NodeAffinity), stableLabels(old.Spec.NodeAffinity)) {
		c.invalid(field.NewPath("nodeAffinity"), Internal(o.Spec.NodeAffinity), apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA")
	}
	if old.Spec.VolumeAttributesClassName != nil && o.Spec.VolumeAttributesClassName == nil {
		c.forbid(at.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden")
	}
	return c.errs
}

// stable are labels of nodes that had other names before they were stable.
var stable = map[string]string{
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/os": corev1.LabelOSStable, "beta.kubernetes.io/arch": corev1.LabelArchStable, corev1.LabelInstanceType: corev1.LabelInstanceTypeStable,
}

func stableLabels(a *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if a == nil || a.Required == nil {
		return a
	}
	a = a.DeepCopy()
	for i := range a.Required.NodeSelectorTerms {
		exprs := a.Required.NodeSelectorTerms[i].MatchExpressions
		for j := range exprs {
			if name := stable[exprs[j].Key]; name != "" {
				exprs[j].Key = name
			}
		}
	}
	return a
}
