// Package env works out the environment of a container: its env and envFrom,
// fields of the pod, resources, the variables of services, and $(NAME)
// references in all of them and in commands. It is pure but for the
// configuration objects that it asks for.
package env

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Objects finds what variables refer to. Its errors are the API's.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Source is what variables are made from.
type Source struct {
	Pod     *corev1.Pod
	HostIPs []string
	PodIPs  []string
	// Services are those of the pod's namespace and of "default".
	Services []*corev1.Service
	Objects  Objects
	// Allocatable is the node's, which an unset limit stands for.
	Allocatable corev1.ResourceList
}

// Var is one variable.
type Var struct{ Name, Value string }

// Make returns the variables of a container, in order. The error says which
// object or key is missing, as Kubernetes words it.
func Make(ctx context.Context, s Source, c *corev1.Container) ([]Var, error) {
	m := &maker{Source: s, container: c, at: map[string]int{}}
	if err := m.from(ctx); err != nil {
		return nil, err
	}
	services := serviceVars(s)
	byName := map[string]string{}
	for _, v := range services {
		byName[v.Name] = v.Value
	}
	if err := m.env(ctx, byName); err != nil {
		return nil, err
	}
	for _, v := range services {
		if _, ok := m.at[v.Name]; !ok {
			m.set(v.Name, v.Value)
		}
	}
	return m.out, nil
}

type maker struct {
	Source
	container *corev1.Container
	out       []Var
	at        map[string]int
}

func (m *maker) set(name, value string) {
	if i, ok := m.at[name]; ok {
		m.out[i].Value = value
		return
	}
	m.at[name] = len(m.out)
	m.out = append(m.out, Var{name, value})
}

// from adds the keys of whole objects. Keys that cannot be names are left out.
func (m *maker) from(ctx context.Context) error {
	for _, f := range m.container.EnvFrom {
		var data map[string]string
		var err error
		switch {
		case f.ConfigMapRef != nil:
			data, err = m.configMap(ctx, f.ConfigMapRef.Name, f.ConfigMapRef.Optional)
		case f.SecretRef != nil:
			data, err = m.secret(ctx, f.SecretRef.Name, f.SecretRef.Optional)
		}
		if err != nil {
			return err
		}
		keys := make([]string, 0, len(data))
		for k := range data {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			if name := f.Prefix + k; len(validation.IsRelaxedEnvVarName(name)) == 0 {
				m.set(name, data[k])
			}
		}
	}
	return nil
}

func (m *maker) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	cm, err := m.Objects.ConfigMap(ctx, m.Pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return cm.Data, nil
}

func (m *maker) secret(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	s, err := m.Objects.Secret(ctx, m.Pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(s.Data))
	for k, v := range s.Data {
		out[k] = string(v)
	}
	return out, nil
}

// env adds the listed variables. A reference sees the variables before it,
// then those of services.
func (m *maker) env(ctx context.Context, services map[string]string) error {
	lookup := func(name string) (string, bool) {
		if i, ok := m.at[name]; ok {
			return m.out[i].Value, true
		}
		v, ok := services[name]
		return v, ok
	}
	for i := range m.container.Env {
		e := &m.container.Env[i]
		if e.ValueFrom == nil {
			m.set(e.Name, Expand(e.Value, lookup))
			continue
		}
		v, ok, err := m.value(ctx, e.ValueFrom)
		if err != nil {
			return err
		}
		if ok {
			m.set(e.Name, v)
		}
	}
	return nil
}

// value finds what a variable refers to; false means that it is optional and
// absent.
func (m *maker) value(ctx context.Context, f *corev1.EnvVarSource) (string, bool, error) {
	switch {
	case f.FieldRef != nil:
		v, err := Field(m.Source, f.FieldRef.FieldPath)
		return v, true, err
	case f.ResourceFieldRef != nil:
		v, err := Resource(m.Source, f.ResourceFieldRef, m.container.Name)
		return v, true, err
	case f.ConfigMapKeyRef != nil:
		r := f.ConfigMapKeyRef
		data, err := m.configMap(ctx, r.Name, r.Optional)
		return key("ConfigMap", m.Pod.Namespace, r.Name, r.Key, data, r.Optional, err)
	case f.SecretKeyRef != nil:
		r := f.SecretKeyRef
		data, err := m.secret(ctx, r.Name, r.Optional)
		return key("Secret", m.Pod.Namespace, r.Name, r.Key, data, r.Optional, err)
	}
	return "", false, errors.New("this kind of variable is not supported by this node")
}

func key(kind, namespace, name, key string, data map[string]string, optional *bool, err error) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	v, ok := data[key]
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s %s/%s", key, kind, namespace, name)
	}
	return v, ok, nil
}

// Strings returns variables as NAME=value.
func Strings(vs []Var) []string {
	out := make([]string, 0, len(vs))
	for _, v := range vs {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// Lookup finds a variable.
func Lookup(vs []Var) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := range vs {
			if vs[i].Name == name {
				return vs[i].Value, true
			}
		}
		return "", false
	}
}

// Expand replaces $(NAME) by what lookup finds. Unknown names stay as they
// are; $$ stands for one $.
func Expand(s string, lookup func(string) (string, bool)) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		rest := s[i+1:]
		end := strings.IndexByte(rest, ')')
		switch {
		case rest[0] == '$':
			b.WriteByte('$')
			s = rest[1:]
		case rest[0] == '(' && end > 0:
			if v, ok := lookup(rest[1:end]); ok {
				b.WriteString(v)
			} else {
				b.WriteString(s[i : i+end+2])
			}
			s = rest[end+1:]
		default:
			b.WriteByte('$')
			s = rest
		}
	}
}

// ExpandStrict is Expand where an unknown name is an error, as in subPathExpr.
func ExpandStrict(s string, lookup func(string) (string, bool)) (string, error) {
	var missing []string
	out := Expand(s, func(name string) (string, bool) {
		v, ok := lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		return v, true
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %q", missing[0])
	}
	return out, nil
}
