package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
)

// classSuffix stands between a storage class and what is counted of it.
const classSuffix = ".storageclass.storage.k8s.io/"

// claims are charged with their count and the storage that they ask for, over
// all and by class.
var claims = &Evaluator{
	Resource: corev1.Resource("persistentvolumeclaims"),
	names: func(n corev1.ResourceName) bool {
		s := string(n)
		return n == CountName(corev1.Resource("persistentvolumeclaims")) || n == corev1.ResourcePersistentVolumeClaims || n == corev1.ResourceRequestsStorage ||
			strings.HasSuffix(s, classSuffix+string(corev1.ResourcePersistentVolumeClaims)) || strings.HasSuffix(s, classSuffix+string(corev1.ResourceRequestsStorage))
	},
	scope: func(s corev1.ScopedResourceSelectorRequirement, o schema.Object) bool {
		pvc, ok := o.(*corev1.PersistentVolumeClaim)
		if !ok || s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
			return false
		}
		return attributesClass(s, pvc)
	},
	usage: func(o schema.Object, _ time.Time) corev1.ResourceList {
		return claimUsage(o.(*corev1.PersistentVolumeClaim))
	},
	charges: func(verb, sub string, o, old schema.Object) bool {
		switch sub {
		case "":
			return verb == "create" || verb == "update"
		case "status":
			a, ok := o.(*corev1.PersistentVolumeClaim)
			b, was := old.(*corev1.PersistentVolumeClaim)
			return ok && was && !equality.Semantic.DeepEqual(a.Status.AllocatedResources, b.Status.AllocatedResources)
		}
		return false
	},
}

// attributesClass: a claim is in the scope of every attributes class that it
// has, asks for, or is on its way to.
func attributesClass(s corev1.ScopedResourceSelectorRequirement, pvc *corev1.PersistentVolumeClaim) bool {
	names := []string{}
	add := func(p *string) {
		if p != nil && *p != "" {
			names = append(names, *p)
		}
	}
	add(pvc.Spec.VolumeAttributesClassName)
	add(pvc.Status.CurrentVolumeAttributesClassName)
	if m := pvc.Status.ModifyVolumeStatus; m != nil {
		add(&m.TargetVolumeAttributesClassName)
	}
	if len(names) == 0 {
		return matchValue(s, "")
	}
	for _, n := range names {
		if matchValue(s, n) {
			return true
		}
	}
	return false
}

func claimUsage(pvc *corev1.PersistentVolumeClaim) corev1.ResourceList {
	class := StorageClass(pvc)
	out := corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: one(), CountName(corev1.Resource("persistentvolumeclaims")): one()}
	if class != "" {
		out[corev1.ResourceName(class+classSuffix)+corev1.ResourcePersistentVolumeClaims] = one()
	}
	size, ok := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return out
	}
	// While a volume grows it holds the most that has been asked for.
	if have, ok := pvc.Status.AllocatedResources[corev1.ResourceStorage]; ok && have.Cmp(size) > 0 {
		size = have
	}
	size = size.DeepCopy()
	size.RoundUp(0) // quotas are in whole bytes
	out[corev1.ResourceRequestsStorage] = size
	if class != "" {
		out[corev1.ResourceName(class+classSuffix)+corev1.ResourceRequestsStorage] = size
	}
	return out
}

// StorageClass is the class of a claim, by the annotation from before the field
// or by the field; "" for none.
func StorageClass(pvc *corev1.PersistentVolumeClaim) string {
	if c, ok := pvc.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return c
	}
	if pvc.Spec.StorageClassName != nil {
		return *pvc.Spec.StorageClassName
	}
	return ""
}

// services are charged with their count, load balancers and node ports: those
// that are asked for, they may not have been given yet.
var services = &Evaluator{
	Resource: corev1.Resource("services"),
	names: func(n corev1.ResourceName) bool {
		return n == CountName(corev1.Resource("services")) || n == corev1.ResourceServices || n == corev1.ResourceServicesNodePorts || n == corev1.ResourceServicesLoadBalancers
	},
	usage: func(o schema.Object, _ time.Time) corev1.ResourceList { return serviceUsage(o.(*corev1.Service)) },
	charges: func(verb, sub string, _, _ schema.Object) bool {
		return sub == "" && (verb == "create" || verb == "update")
	},
}

func serviceUsage(s *corev1.Service) corev1.ResourceList {
	ports, balancers := int64(0), int64(0)
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		ports, balancers = int64(len(s.Spec.Ports)), 1
		if a := s.Spec.AllocateLoadBalancerNodePorts; a != nil && !*a {
			ports = 0
			for _, p := range s.Spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	}
	return corev1.ResourceList{
		CountName(corev1.Resource("services")): one(), corev1.ResourceServices: one(),
		corev1.ResourceServicesLoadBalancers: *resource.NewQuantity(balancers, resource.DecimalSI),
		corev1.ResourceServicesNodePorts:     *resource.NewQuantity(ports, resource.DecimalSI),
	}
}

// deviceSuffix stands between a device class and what is counted of it.
const deviceSuffix = ".deviceclass.resource.k8s.io/devices"

// deviceClaims are charged with their count and with the devices of each class
// that they may get at most.
var deviceClaims = &Evaluator{
	Resource: kschema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"},
	names: func(n corev1.ResourceName) bool {
		return n == "count/resourceclaims.resource.k8s.io" || strings.HasSuffix(string(n), deviceSuffix)
	},
	usage: func(o schema.Object, _ time.Time) corev1.ResourceList {
		out := corev1.ResourceList{"count/resourceclaims.resource.k8s.io": one()}
		if c, ok := o.(*resourcev1.ResourceClaim); ok {
			for _, r := range c.Spec.Devices.Requests {
				for class, n := range devices(r) {
					name := corev1.ResourceName(class + deviceSuffix)
					q := out[name]
					q.Add(*resource.NewQuantity(n, resource.DecimalSI))
					out[name] = q
				}
			}
		}
		return out
	},
}

// devices is how many devices of each class a request may get at most.
func devices(r resourcev1.DeviceRequest) map[string]int64 {
	count := func(mode resourcev1.DeviceAllocationMode, n int64) int64 {
		if mode == resourcev1.DeviceAllocationModeAll {
			return resourcev1.AllocationResultsMaxSize
		}
		return n
	}
	out := map[string]int64{}
	if r.Exactly != nil {
		out[r.Exactly.DeviceClassName] = count(r.Exactly.AllocationMode, r.Exactly.Count)
	}
	for _, s := range r.FirstAvailable { // one of them: the most of each class
		out[s.DeviceClassName] = max(out[s.DeviceClassName], count(s.AllocationMode, s.Count))
	}
	return out
}
