package table

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// Columns of volumes, and of kinds that hold data.
var _ = register(map[string]func(*Row) any{
	"dataCount":         func(r *Row) any { return dataCount(r.Object) },
	"volumeCapacity":    func(r *Row) any { return volumeCapacity(r.Object) },
	"volumeAccessModes": func(r *Row) any { return volumeAccessModes(r.Object) },
	"volumeStatus":      func(r *Row) any { return volumeStatus(r.Object) },
	"volumeClaim":       func(r *Row) any { return volumeClaim(r.Object.(*corev1.PersistentVolume)) },
	"storageClassName":  func(r *Row) any { return storageClassName(r.Object) },
})

func dataCount(o schema.Object) int64 {
	switch d := o.(type) {
	case *corev1.ConfigMap:
		return int64(len(d.Data) + len(d.BinaryData))
	case *corev1.Secret:
		return int64(len(d.Data))
	}
	return 0
}

func volumeCapacity(o schema.Object) string {
	list := corev1.ResourceList(nil)
	switch v := o.(type) {
	case *corev1.PersistentVolume:
		list = v.Spec.Capacity
	case *corev1.PersistentVolumeClaim:
		if v.Spec.VolumeName == "" {
			return ""
		}
		list = v.Status.Capacity
	}
	q := list[corev1.ResourceStorage]
	return q.String()
}

func volumeAccessModes(o schema.Object) string {
	switch v := o.(type) {
	case *corev1.PersistentVolume:
		return accessModes(v.Spec.AccessModes)
	case *corev1.PersistentVolumeClaim:
		if v.Spec.VolumeName != "" {
			return accessModes(v.Status.AccessModes)
		}
	}
	return ""
}

// accessModes prints the modes short, in upstream's order, each once.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		for _, have := range modes {
			if have == m.mode {
				short = append(short, m.short)
				break
			}
		}
	}
	return strings.Join(short, ",")
}

func volumeStatus(o schema.Object) string {
	if o.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	switch v := o.(type) {
	case *corev1.PersistentVolume:
		return string(v.Status.Phase)
	case *corev1.PersistentVolumeClaim:
		return string(v.Status.Phase)
	}
	return ""
}

func volumeClaim(v *corev1.PersistentVolume) string {
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
}

func storageClassName(o schema.Object) string {
	if class, ok := o.GetAnnotations()[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	switch v := o.(type) {
	case *corev1.PersistentVolume:
		return v.Spec.StorageClassName
	case *corev1.PersistentVolumeClaim:
		return deref(v.Spec.StorageClassName, "")
	}
	return ""
}
