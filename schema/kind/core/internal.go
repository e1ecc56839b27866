package core

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
)

// Internal shows a value of the core API as Kubernetes shows it in its answers:
// in the form of its internal types, with Go's names and every field.
func Internal(v any) json.RawMessage {
	var b bytes.Buffer
	internal(&b, reflect.ValueOf(v))
	return b.Bytes()
}

// Diff shows a change of such a value, as Kubernetes shows it.
func Diff(old, is any) string { return diff.Diff(Internal(old), Internal(is)) }

// corePackage is where the types are whose internal forms have no JSON names.
var corePackage = reflect.TypeFor[corev1.PodSpec]().PkgPath()

// internalOrder is the order of fields of internal types that have another one
// than those of v1. Fields that are not named are not there.
var internalOrder = map[reflect.Type][]string{
	reflect.TypeFor[corev1.PodSpec](): strings.Fields(`Volumes InitContainers Containers EphemeralContainers RestartPolicy
		TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy NodeSelector ServiceAccountName AutomountServiceAccountToken NodeName
		SecurityContext ImagePullSecrets Hostname Subdomain SetHostnameAsFQDN Affinity SchedulerName Tolerations HostAliases PriorityClassName
		Priority PreemptionPolicy DNSConfig ReadinessGates RuntimeClassName Overhead EnableServiceLinks TopologySpreadConstraints OS
		SchedulingGates ResourceClaims Resources HostnameOverride SchedulingGroup`),
	reflect.TypeFor[podSecurity](): strings.Fields(`HostNetwork HostPID HostIPC ShareProcessNamespace HostUsers SELinuxOptions WindowsOptions
		RunAsUser RunAsGroup RunAsNonRoot SupplementalGroups SupplementalGroupsPolicy FSGroup FSGroupChangePolicy Sysctls SeccompProfile
		AppArmorProfile SELinuxChangePolicy`),
	reflect.TypeFor[corev1.PersistentVolumeSource](): strings.Fields(`GCEPersistentDisk AWSElasticBlockStore HostPath Glusterfs NFS RBD Quobyte
		ISCSI FlexVolume Cinder CephFS FC Flocker AzureFile VsphereVolume AzureDisk PhotonPersistentDisk PortworxVolume ScaleIO Local StorageOS CSI`),
	reflect.TypeFor[corev1.VolumeSource](): strings.Fields(`HostPath EmptyDir GCEPersistentDisk AWSElasticBlockStore GitRepo Secret NFS ISCSI
		Glusterfs PersistentVolumeClaim RBD Quobyte FlexVolume Cinder CephFS Flocker DownwardAPI FC AzureFile ConfigMap VsphereVolume AzureDisk
		PhotonPersistentDisk Projected PortworxVolume ScaleIO StorageOS CSI Ephemeral Image`),
}

// podSecurity is the internal security context of a pod, which has what in v1
// stands beside it.
type podSecurity struct {
	*corev1.PodSecurityContext
	HostNetwork, HostPID, HostIPC    bool
	ShareProcessNamespace, HostUsers *bool
}

func internal(b *bytes.Buffer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("null")
			return
		}
		internal(b, v.Elem())
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			plain(b, v)
			return
		}
		list(b, '[', ']', v.Len(), func(i int) { internal(b, v.Index(i)) })
	case reflect.Map:
		if v.IsNil() {
			b.WriteString("null")
			return
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		list(b, '{', '}', len(keys), func(i int) {
			member(b, keys[i].String())
			internal(b, v.MapIndex(keys[i]))
		})
	case reflect.Struct:
		if p := v.Type().PkgPath(); p != corePackage && v.Type() != reflect.TypeFor[podSecurity]() {
			plain(b, v)
			return
		}
		internalStruct(b, v)
	default:
		plain(b, v)
	}
}

func internalStruct(b *bytes.Buffer, v reflect.Value) {
	var names []string
	var values []reflect.Value
	collectFields(v, func(name string, f reflect.Value) {
		names, values = append(names, name), append(values, f)
	})
	list(b, '{', '}', len(names), func(i int) {
		member(b, names[i])
		internal(b, values[i])
	})
}

// collectFields visits the fields of a struct, embedded ones as its own.
func collectFields(v reflect.Value, visit func(string, reflect.Value)) {
	one := func(f reflect.StructField, value reflect.Value) {
		if f.Anonymous && f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == corePackage {
			collectFields(value, visit)
			return
		}
		if f.Anonymous && f.Type == reflect.TypeFor[metav1.ObjectMeta]() { // it has JSON names there too
			collectJSON(value, visit)
			return
		}
		if spec, ok := v.Interface().(corev1.PodSpec); ok && f.Name == "SecurityContext" {
			value = reflect.ValueOf(securityOf(&spec))
		}
		visit(f.Name, value)
	}
	order := internalOrder[v.Type()]
	if order == nil {
		for i := range v.NumField() {
			one(v.Type().Field(i), v.Field(i))
		}
		return
	}
	for _, name := range order {
		if f, ok := v.Type().FieldByName(name); ok {
			one(f, v.FieldByIndex(f.Index))
		}
	}
}

// collectJSON visits the fields of a struct that JSON shows, by their JSON names.
func collectJSON(v reflect.Value, visit func(string, reflect.Value)) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		empty := f.IsZero() || (f.Kind() == reflect.Map || f.Kind() == reflect.Slice) && f.Len() == 0
		if !empty || options == "" {
			visit(name, f)
		}
	}
}

func securityOf(spec *corev1.PodSpec) podSecurity {
	sc := spec.SecurityContext
	if sc == nil {
		sc = &corev1.PodSecurityContext{}
	}
	return podSecurity{sc, spec.HostNetwork, spec.HostPID, spec.HostIPC, spec.ShareProcessNamespace, spec.HostUsers}
}

func list(b *bytes.Buffer, open, end byte, n int, item func(i int)) {
	b.WriteByte(open)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		item(i)
	}
	b.WriteByte(end)
}

func member(b *bytes.Buffer, name string) {
	data, _ := json.Marshal(name) // a string always can be
	b.Write(data)
	b.WriteByte(':')
}

// plain writes what has the same form in both.
func plain(b *bytes.Buffer, v reflect.Value) {
	data, err := json.Marshal(v.Interface())
	if err != nil {
		data = []byte("null")
	}
	b.Write(data)
}
