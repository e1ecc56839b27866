package client

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/schema"
)

// This file holds the rules of the Fake that are plain functions of objects.

func deepCopy(o schema.Object) schema.Object { return o.DeepCopyObject().(schema.Object) }

func formatVersion(v uint64) string { return strconv.FormatUint(v, 10) }

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

// field returns a top-level field of an object, or an invalid value.
func field(o schema.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

func copyField(to, from schema.Object, name string) {
	if u, ok := to.(*unstructured.Unstructured); ok {
		name = strings.ToLower(name)
		delete(u.Object, name)
		if v, ok := from.(*unstructured.Unstructured).Object[name]; ok {
			u.Object[name] = v
		}
		return
	}
	if f := field(to, name); f.IsValid() {
		f.Set(field(from, name))
	}
}

func resetStatus(o schema.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		delete(u.Object, "status")
	}
	if f := field(o, "Status"); f.IsValid() {
		f.SetZero()
	}
}

// counted is what a generation counts: the spec, and of a Deployment the
// annotations too.
func counted(o schema.Object) any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		m := map[string]any{}
		for k, v := range u.Object {
			if k != "metadata" && k != "status" {
				m[k] = v
			}
		}
		return m
	}
	if d, ok := o.(*appsv1.Deployment); ok {
		return []any{d.Spec, d.Annotations}
	}
	if f := field(o, "Spec"); f.IsValid() {
		return f.Interface()
	}
	return nil
}

// keepIdentity keeps the parts of metadata that no update changes.
func keepIdentity(next, old schema.Object) {
	next.SetUID(old.GetUID())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	next.SetGeneration(old.GetGeneration())
	next.SetResourceVersion(old.GetResourceVersion())
	if next.GetManagedFields() == nil {
		next.SetManagedFields(old.GetManagedFields())
	}
	next.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
}

// nothingHolds says that a deleted object can go now.
func nothingHolds(o schema.Object) bool {
	if len(o.GetFinalizers()) > 0 {
		return false
	}
	switch t := o.(type) {
	case *corev1.Namespace:
		return len(t.Spec.Finalizers) == 0
	case *corev1.Pod:
		return t.DeletionGracePeriodSeconds == nil || *t.DeletionGracePeriodSeconds == 0
	}
	return true
}

// setPropagation turns the asked propagation into the finalizers that the
// garbage collector acts on.
func setPropagation(o schema.Object, p metav1.DeletionPropagation) {
	if p == "" {
		return
	}
	fin := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(s string) bool {
		return s == metav1.FinalizerOrphanDependents || s == metav1.FinalizerDeleteDependents
	})
	switch p {
	case metav1.DeletePropagationOrphan:
		fin = append(fin, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		fin = append(fin, metav1.FinalizerDeleteDependents)
	}
	o.SetFinalizers(fin)
}

// setReplicas changes spec.replicas of the kinds that scale.
func setReplicas(o schema.Object, n int32) {
	switch t := o.(type) {
	case *appsv1.Deployment:
		t.Spec.Replicas = &n
	case *appsv1.ReplicaSet:
		t.Spec.Replicas = &n
	case *appsv1.StatefulSet:
		t.Spec.Replicas = &n
	case *corev1.ReplicationController:
		t.Spec.Replicas = &n
	}
}
