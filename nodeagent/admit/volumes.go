package admit

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mounted are the kinds of volumes that a node mounts.
var mounted = map[string]bool{"hostPath": true, "emptyDir": true, "configMap": true, "secret": true, "downwardAPI": true, "projected": true}

// claims are those that need persistent volumes.
var claims = map[string]bool{"persistentVolumeClaim": true, "ephemeral": true}

// projected are the sources that a projected volume may have.
var projected = map[string]bool{"configMap": true, "secret": true, "downwardAPI": true, "serviceAccountToken": true}

func volumes(n Node, p Pod) string {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		for _, kind := range set(v.VolumeSource) {
			if !mounted[kind] && (!claims[kind] || !n.Claims) {
				return fmt.Sprintf("volume %s: this node cannot mount volumes of kind %s", v.Name, kind)
			}
		}
	}
	return ""
}

func mediums(_ Node, p Pod) string {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if e := v.EmptyDir; e != nil && e.Medium != corev1.StorageMediumDefault && e.Medium != corev1.StorageMediumMemory {
			return fmt.Sprintf("volume %s: this node has no medium %s", v.Name, e.Medium)
		}
	}
	return ""
}

func projections(_ Node, p Pod) string {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			for _, kind := range set(s) {
				if !projected[kind] {
					return fmt.Sprintf("volume %s: this node cannot project %s", v.Name, kind)
				}
			}
		}
	}
	return ""
}

// set are the JSON names of the fields of a union that are set, also of those
// that later versions of the API add.
func set(union any) []string {
	var out []string
	v := reflect.ValueOf(union)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, name)
		}
	}
	return out
}
