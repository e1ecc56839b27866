package defaults

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setCustomResourceDefinition derives the names from the kind, and what is
// stored from what is to be stored.
func setCustomResourceDefinition(o *apiextensionsv1.CustomResourceDefinition) {
	names := &o.Spec.Names
	if names.Singular == "" {
		names.Singular = strings.ToLower(names.Kind)
	}
	if names.ListKind == "" && names.Kind != "" {
		names.ListKind = names.Kind + "List"
	}
	if o.Spec.Conversion == nil {
		o.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
	if len(o.Status.StoredVersions) > 0 {
		return
	}
	for _, v := range o.Spec.Versions {
		if v.Storage {
			o.Status.StoredVersions = []string{v.Name}
			return
		}
	}
}

func setCSIDriverSpec(o *storagev1.CSIDriverSpec) {
	if len(o.VolumeLifecycleModes) == 0 {
		o.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func setExactDeviceRequest(o *resourcev1.ExactDeviceRequest) {
	deviceCount(&o.AllocationMode, &o.Count)
}

func setDeviceSubRequest(o *resourcev1.DeviceSubRequest) { deviceCount(&o.AllocationMode, &o.Count) }

// deviceCount asks for one device where nothing is said.
func deviceCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

// setDeviceTaint notes when a taint was set. It is the one default that is not
// the same every time; upstream has it so.
func setDeviceTaint(o *resourcev1.DeviceTaint) {
	if o.TimeAdded == nil {
		o.TimeAdded = &metav1.Time{Time: time.Now().Truncate(time.Second)}
	}
}

func setDevice(o *resourcev1.Device) {
	for k, m := range o.NodeAllocatableResourceMappings {
		if m.AllocationMultiplier == nil {
			m.AllocationMultiplier = resource.NewQuantity(1, resource.DecimalSI)
			o.NodeAllocatableResourceMappings[k] = m
		}
	}
}
