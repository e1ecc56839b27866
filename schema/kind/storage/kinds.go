// Package storage judges volumes, claims, storage classes and drivers.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package storage

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	CSIDriver, CSINode, CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
	VolumeAttachment, VolumeAttributesClass,
}
