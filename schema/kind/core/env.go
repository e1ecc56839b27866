package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *check) env(vars []corev1.EnvVar, at *field.Path) {
	for i, v := range vars {
		at := at.Index(i)
		if v.Name == "" {
			c.required(at.Child("name"), "")
		} else {
			c.each(at.Child("name"), v.Name, validation.IsRelaxedEnvVarName(v.Name))
		}
		if v.ValueFrom != nil {
			c.valueFrom(&v, at.Child("valueFrom"))
		}
	}
}

// Fields that a container may see of its pod, as variables and as files.
var (
	envFields  = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	fileFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
)

func (c *check) valueFrom(v *corev1.EnvVar, at *field.Path) {
	from, n := v.ValueFrom, 0
	if r := from.FieldRef; r != nil {
		n++
		c.fieldRef(r, envFields, at.Child("fieldRef"))
	}
	if r := from.ResourceFieldRef; r != nil {
		n++
		c.resourceRef(r, false, at.Child("resourceFieldRef"))
	}
	if r := from.ConfigMapKeyRef; r != nil {
		n++
		c.keyRef(r.Name, r.Key, at.Child("configMapKeyRef"))
	}
	if r := from.SecretKeyRef; r != nil {
		n++
		c.keyRef(r.Name, r.Key, at.Child("secretKeyRef"))
	}
	if r := from.FileKeyRef; r != nil {
		n++
		c.fileRef(r, at.Child("fileKeyRef"))
	}
	switch {
	case n == 0:
		c.invalid(at, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case v.Value != "":
		c.invalid(at, "", "may not be specified when `value` is not empty")
	case n > 1:
		c.invalid(at, "", "may not have more than one field specified at a time")
	}
}

// knownFields are the fields of a pod that its API knows by path.
var knownFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
	"spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}

func (c *check) fieldRef(r *corev1.ObjectFieldSelector, visible []string, at *field.Path) {
	if r.APIVersion == "" {
		c.required(at.Child("apiVersion"), "")
		return
	}
	if r.FieldPath == "" {
		c.required(at.Child("fieldPath"), "")
		return
	}
	path, key, subscript := splitSubscript(r.FieldPath)
	if err := convertField(r.APIVersion, path, r.FieldPath, subscript); err != nil {
		c.invalid(at.Child("fieldPath"), r.FieldPath, fmt.Sprintf("error converting fieldPath: %v", err))
		return
	}
	if path == "spec.host" { // what the first clients said
		path = "spec.nodeName"
	}
	switch {
	case subscript && path == "metadata.annotations":
		c.qualified(at, strings.ToLower(key))
	case subscript:
		c.qualified(at, key)
	case !slices.Contains(visible, path):
		c.add(field.NotSupported(at.Child("fieldPath"), path, visible))
	}
}

func convertField(version, path, label string, subscript bool) error {
	switch {
	case version != "v1":
		return fmt.Errorf("unsupported pod version: %s", version)
	case subscript && path != "metadata.annotations" && path != "metadata.labels":
		return fmt.Errorf("field label does not support subscript: %s", label)
	case !subscript && label != "spec.host" && !slices.Contains(knownFields, label):
		return fmt.Errorf("field label not supported: %s", label)
	}
	return nil
}

// splitSubscript splits "metadata.labels['key']".
func splitSubscript(path string) (before, key string, ok bool) {
	s, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	before, key, ok = strings.Cut(s, "['")
	if !ok || before == "" {
		return path, "", false
	}
	return before, key, true
}

var resourceFields = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"}

func (c *check) resourceRef(r *corev1.ResourceFieldSelector, file bool, at *field.Path) {
	huge := strings.HasPrefix(r.Resource, "limits.hugepages-") || strings.HasPrefix(r.Resource, "requests.hugepages-")
	switch {
	case file && r.ContainerName == "":
		c.required(at.Child("containerName"), "")
	case r.Resource == "":
		c.required(at.Child("resource"), "")
	case !huge && !slices.Contains(resourceFields, r.Resource):
		c.add(field.NotSupported(at.Child("resource"), r.Resource, resourceFields))
	}
	c.divisor(r.Resource, r.Divisor, huge, at.Child("divisor"))
}

var byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}

func (c *check) divisor(name string, q resource.Quantity, huge bool, at *field.Path) {
	if q.IsZero() {
		return
	}
	_, kind, _ := strings.Cut(name, ".")
	switch {
	case huge:
		kind = "hugepages"
	case kind == "ephemeral-storage":
		kind = "local ephemeral storage"
	case kind == "cpu":
		if s := q.String(); s != "1m" && s != "1" {
			c.invalid(at, name, "only divisor's values 1m and 1 are supported with the cpu resource")
		}
		return
	case kind != "memory":
		return
	}
	if !slices.Contains(byteDivisors, q.String()) {
		c.invalid(at, name, "only divisor's values "+strings.Join(byteDivisors, ", ")+" are supported with the "+kind+" resource")
	}
}

// keyRef is a key of a ConfigMap or of a Secret.
func (c *check) keyRef(name, key string, at *field.Path) {
	c.subdomain(at.Child("name"), name)
	if key == "" {
		c.required(at.Child("key"), "")
		return
	}
	c.each(at.Child("key"), key, validation.IsConfigMapKey(key))
}

func (c *check) fileRef(r *corev1.FileKeySelector, at *field.Path) {
	if r.Key == "" {
		c.required(at.Child("key"), "")
	} else {
		c.each(at.Child("key"), r.Key, validation.IsRelaxedEnvVarName(r.Key))
	}
	if r.VolumeName == "" {
		c.required(at.Child("volumeName"), "")
	} else {
		c.label(at.Child("volumeName"), r.VolumeName)
	}
	if r.Path == "" {
		c.required(at.Child("path"), "")
	} else {
		c.noBacksteps(at.Child("path"), r.Path)
	}
}

func (c *check) envFrom(vars []corev1.EnvFromSource, at *field.Path) {
	for i, v := range vars {
		idx := at.Index(i)
		if v.Prefix != "" {
			c.each(idx.Child("prefix"), v.Prefix, validation.IsRelaxedEnvVarName(v.Prefix))
		}
		n := 0
		source := func(name, source string) {
			n++
			if name == "" {
				c.required(idx.Child(source, "name"), "")
				return
			}
			c.each(idx.Child(source, "name"), name, nameErrors(name, true))
		}
		if v.ConfigMapRef != nil {
			source(v.ConfigMapRef.Name, "configMapRef")
		}
		if v.SecretRef != nil {
			source(v.SecretRef.Name, "secretRef")
		}
		switch {
		case n == 0:
			c.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
		case n > 1:
			c.invalid(at, "", "may not have more than one field specified at a time")
		}
	}
}

// fileRefs wants the files that variables come from to be in volumes that
// containers write to.
func (p *pod) fileRefs(at *field.Path) {
	sources := map[string]*corev1.VolumeSource{}
	for i := range p.spec.Volumes {
		sources[p.spec.Volumes[i].Name] = &p.spec.Volumes[i].VolumeSource
	}
	visit(p.spec, at, func(ctr *corev1.Container, at *field.Path) {
		for i, v := range ctr.Env {
			if v.ValueFrom == nil || v.ValueFrom.FileKeyRef == nil {
				continue
			}
			name := v.ValueFrom.FileKeyRef.VolumeName
			at := at.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			if s := sources[name]; s == nil {
				p.add(field.NotFound(at, name))
			} else if s.EmptyDir == nil {
				p.invalid(at, name, "referenced volume must be of type emptyDir")
			}
		}
	})
}

// visit walks all containers of a spec: init containers first.
func visit(spec *corev1.PodSpec, at *field.Path, f func(*corev1.Container, *field.Path)) {
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i], at.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		f(&spec.Containers[i], at.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		ctr := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		f(&ctr, at.Child("ephemeralContainers").Index(i))
	}
}
