package limit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// usage is what something asks for.
type usage struct{ requests, limits corev1.ResourceList }

func checkPod(pod *corev1.Pod, r *corev1.LimitRange) []error {
	var errs []error
	for _, l := range r.Spec.Limits {
		switch l.Type {
		case corev1.LimitTypeContainer:
			for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range list {
					c := &list[i].Resources
					errs = append(errs, check(l, usage{c.Requests, c.Limits})...)
				}
			}
		case corev1.LimitTypePod:
			o := helper.PodResourcesOptions{ExcludeOverhead: true}
			errs = append(errs, check(l, usage{helper.PodRequests(pod, o), helper.PodLimits(pod, o)})...)
		}
	}
	return errs
}

func checkClaim(pvc *corev1.PersistentVolumeClaim, r *corev1.LimitRange) []error {
	var errs []error
	for _, l := range r.Spec.Limits {
		if l.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		u := usage{requests: pvc.Spec.Resources.Requests}
		for _, k := range sorted(l.Min) {
			errs = append(errs, u.atLeast(l.Type, k, l.Min[k]))
		}
		for _, k := range sorted(l.Max) {
			errs = append(errs, u.requestAtMost(l.Type, k, l.Max[k]))
		}
	}
	return errs
}

func check(l corev1.LimitRangeItem, u usage) []error {
	var errs []error
	for _, k := range sorted(l.Min) {
		errs = append(errs, u.atLeast(l.Type, k, l.Min[k]))
	}
	for _, k := range sorted(l.Max) {
		errs = append(errs, u.atMost(l.Type, k, l.Max[k]))
	}
	for _, k := range sorted(l.MaxLimitRequestRatio) {
		errs = append(errs, u.ratioAtMost(l.Type, k, l.MaxLimitRequestRatio[k]))
	}
	return errs
}

func sorted(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// values returns quantities as numbers that can be compared: in thousandths
// where none is too large for that.
func values(request, limit, bound resource.Quantity) (r, l, b int64) {
	r, l, b = request.Value(), limit.Value(), bound.Value()
	if r <= resource.MaxMilliValue && l <= resource.MaxMilliValue && b <= resource.MaxMilliValue {
		return request.MilliValue(), limit.MilliValue(), bound.MilliValue()
	}
	return r, l, b
}

func (u usage) atLeast(t corev1.LimitType, k corev1.ResourceName, bound resource.Quantity) error {
	request, requested := u.requests[k]
	limit, limited := u.limits[k]
	r, l, b := values(request, limit, bound)
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", k, t, bound.String())
	case r < b:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", k, t, bound.String(), request.String())
	case limited && l < b:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", k, t, bound.String(), limit.String())
	}
	return nil
}

func (u usage) atMost(t corev1.LimitType, k corev1.ResourceName, bound resource.Quantity) error {
	request, requested := u.requests[k]
	limit, limited := u.limits[k]
	r, l, b := values(request, limit, bound)
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", k, t, bound.String())
	case l > b:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", k, t, bound.String(), limit.String())
	case requested && r > b:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", k, t, bound.String(), request.String())
	}
	return nil
}

// requestAtMost is for what has no limits: claims.
func (u usage) requestAtMost(t corev1.LimitType, k corev1.ResourceName, bound resource.Quantity) error {
	request, requested := u.requests[k]
	r, _, b := values(request, resource.Quantity{}, bound)
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", k, t, bound.String())
	case r > b:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", k, t, bound.String(), request.String())
	}
	return nil
}

func (u usage) ratioAtMost(t corev1.LimitType, k corev1.ResourceName, bound resource.Quantity) error {
	request, requested := u.requests[k]
	limit, limited := u.limits[k]
	r, l, _ := values(request, limit, bound)
	switch {
	case !requested || r == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", k, t, bound.String())
	case !limited || l == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", k, t, bound.String())
	}
	shown := float64(l) / float64(r)
	ratio, most := shown, float64(bound.Value())
	if bound.Value() <= resource.MaxMilliValue {
		ratio, most = ratio*1000, float64(bound.MilliValue())
	}
	if ratio > most {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", k, t, bound.String(), shown)
	}
	return nil
}
