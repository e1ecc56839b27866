package table

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Columns of storage drivers and devices.
var _ = register(map[string]func(*Row) any{
	"driverCount": func(r *Row) any { return int64(len(r.Object.(*storagev1.CSINode).Spec.Drivers)) },
	"driverAttachRequired": func(r *Row) any {
		return deref(r.Object.(*storagev1.CSIDriver).Spec.AttachRequired, true)
	},
	"driverAudiences": func(r *Row) any { return audiences(r.Object.(*storagev1.CSIDriver)) },
	"driverModes":     func(r *Row) any { return driverModes(r.Object.(*storagev1.CSIDriver)) },
	"claimState":      func(r *Row) any { return claimState(r.Object.(*resourcev1.ResourceClaim)) },
})

func audiences(d *storagev1.CSIDriver) string {
	if d.Spec.TokenRequests == nil {
		return unset
	}
	all := make([]string, len(d.Spec.TokenRequests))
	for i, t := range d.Spec.TokenRequests {
		all[i] = t.Audience
	}
	return strings.Join(all, ",")
}

func driverModes(d *storagev1.CSIDriver) string {
	all := make([]string, len(d.Spec.VolumeLifecycleModes))
	for i, m := range d.Spec.VolumeLifecycleModes {
		all[i] = string(m)
	}
	return orNone(strings.Join(all, ","))
}

// claimState says how far a claim of devices is.
func claimState(c *resourcev1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}
