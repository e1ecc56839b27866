package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The sources of volumes that storage had before CSI, in the groups between
// which upstream checks the others.

func (s *sources) legacyDisks(v *corev1.VolumeSource) {
	s.one("gcePersistentDisk", v.GCEPersistentDisk != nil, func(*field.Path) { s.gceDisk(v.GCEPersistentDisk, s.at.Child("persistentDisk")) })
	s.one("awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(at *field.Path) { s.awsDisk(v.AWSElasticBlockStore, at) })
}

func (c *check) gceDisk(d *corev1.GCEPersistentDiskVolumeSource, at *field.Path) {
	c.nonEmpty(at.Child("pdName"), d.PDName)
	c.partition(at, d.Partition)
}

func (c *check) awsDisk(d *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) {
	c.nonEmpty(at.Child("volumeID"), d.VolumeID)
	c.partition(at, d.Partition)
}

func (c *check) partition(at *field.Path, n int32) {
	if n < 0 || n > 255 {
		c.invalid(at.Child("partition"), n, validation.InclusiveRangeError(1, 255))
	}
}

func (s *sources) legacyShares(v *corev1.VolumeSource) {
	s.one("iscsi", v.ISCSI != nil, func(at *field.Path) {
		s.iscsi(v.ISCSI.TargetPortal, v.ISCSI.IQN, v.ISCSI.Lun, at)
		if (v.ISCSI.DiscoveryCHAPAuth || v.ISCSI.SessionCHAPAuth) && v.ISCSI.SecretRef == nil {
			s.required(at.Child("secretRef"), "")
		}
	})
	if g := v.Glusterfs; g != nil {
		s.need("glusterfs", true, "endpoints", g.EndpointsName, "path", g.Path)
	}
	s.one("flocker", v.Flocker != nil, func(at *field.Path) { s.flocker(v.Flocker, at) })
}

func (c *check) iscsi(portal, iqn string, lun int32, at *field.Path) {
	c.nonEmpty(at.Child("targetPortal"), portal)
	switch {
	case iqn == "":
		c.required(at.Child("iqn"), "")
	case !strings.HasPrefix(iqn, "iqn") && !strings.HasPrefix(iqn, "eui") && !strings.HasPrefix(iqn, "naa"):
		c.invalid(at.Child("iqn"), iqn, "must be valid format starting with iqn, eui, or naa")
	}
	if lun < 0 || lun > 255 {
		c.invalid(at.Child("lun"), lun, validation.InclusiveRangeError(0, 255))
	}
}

func (c *check) flocker(f *corev1.FlockerVolumeSource, at *field.Path) {
	switch {
	case f.DatasetName == "" && f.DatasetUUID == "":
		c.required(at, "one of datasetName and datasetUUID is required")
	case f.DatasetName != "" && f.DatasetUUID != "":
		c.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(f.DatasetName, "/") {
		c.invalid(at.Child("datasetName"), f.DatasetName, "must not contain '/'")
	}
}

func (s *sources) legacyClouds(v *corev1.VolumeSource) {
	if r := v.RBD; r != nil {
		s.one("rbd", true, func(at *field.Path) { s.monitors(r.CephMonitors, at); s.nonEmpty(at.Child("image"), r.RBDImage) })
	}
	if d := v.Cinder; d != nil {
		s.one("cinder", true, func(at *field.Path) {
			s.nonEmpty(at.Child("volumeID"), d.VolumeID)
			if d.SecretRef != nil {
				s.nonEmpty(at.Child("secretRef", "name"), d.SecretRef.Name)
			}
		})
	}
	if f := v.CephFS; f != nil {
		s.one("cephfs", true, func(at *field.Path) { s.monitors(f.Monitors, at) }, "cephFS")
	}
	s.one("quobyte", v.Quobyte != nil, func(at *field.Path) { s.quobyte(v.Quobyte, at) })
}

func (c *check) monitors(list []string, at *field.Path) {
	if len(list) == 0 {
		c.required(at.Child("monitors"), "")
	}
}

func (c *check) quobyte(q *corev1.QuobyteVolumeSource, at *field.Path) {
	if q.Registry == "" {
		c.required(at.Child("registry"), "must be a host:port pair or multiple pairs separated by commas")
	}
	c.nonEmpty(at.Child("volume"), q.Volume)
}

func (s *sources) legacyFC(v *corev1.VolumeSource) {
	s.one("fc", v.FC != nil, func(at *field.Path) { s.fibre(v.FC, at) })
	if f := v.FlexVolume; f != nil {
		s.one("flexVolume", true, func(at *field.Path) { s.flex(f.Driver, f.Options, at) })
	}
}

func (c *check) fibre(f *corev1.FCVolumeSource, at *field.Path) {
	switch {
	case len(f.TargetWWNs) == 0 && len(f.WWIDs) == 0:
		c.required(at.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	case len(f.TargetWWNs) != 0 && len(f.WWIDs) != 0:
		c.invalid(at.Child("targetWWNs"), f.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if len(f.TargetWWNs) == 0 {
		return
	}
	if f.Lun == nil {
		c.required(at.Child("lun"), "lun is required if targetWWNs is specified")
	} else if *f.Lun < 0 || *f.Lun > 255 {
		c.invalid(at.Child("lun"), *f.Lun, validation.InclusiveRangeError(0, 255))
	}
}

func (c *check) flex(driver string, options map[string]string, at *field.Path) {
	c.nonEmpty(at.Child("driver"), driver)
	for _, k := range sorted(options) {
		domain, _, _ := strings.Cut(k, "/")
		if d := "." + strings.ToLower(domain); strings.HasSuffix(d, ".kubernetes.io") || strings.HasSuffix(d, ".k8s.io") {
			c.invalid(at.Child("options").Key(k), k, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (s *sources) legacyVendors(v *corev1.VolumeSource) {
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
	s.one("azureDisk", v.AzureDisk != nil, func(at *field.Path) { s.azureDisk(v.AzureDisk, at) })
	if o := v.StorageOS; o != nil {
		s.need("storageos", true, "volumeName", o.VolumeName)
	}
}

func (c *check) azureDisk(d *corev1.AzureDiskVolumeSource, at *field.Path) {
	c.nonEmpty(at.Child("diskName"), d.DiskName)
	c.nonEmpty(at.Child("diskURI"), d.DataDiskURI)
	if d.CachingMode != nil {
		oneOf(c, at.Child("cachingMode"), *d.CachingMode, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	if d.Kind != nil {
		oneOf(c, at.Child("kind"), *d.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
	}
}

func scaleIO(s *corev1.ScaleIOVolumeSource) []string {
	if s == nil {
		return nil
	}
	return []string{"gateway", s.Gateway, "system", s.System, "volumeName", s.VolumeName}
}
