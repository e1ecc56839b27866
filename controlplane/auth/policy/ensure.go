package policy

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// FieldManager is recorded for what Ensure writes.
const FieldManager = "writ-bootstrap"

// Ensure brings the cluster's own namespaces, priority classes, roles and
// bindings into the store, as upstream does at start: what is missing is created, rules and subjects that are missing are
// added, a binding to another role is made again. Rules and subjects that
// somebody added stay, and so does all of an object whose autoupdate annotation
// is "false" or that Git declares.
//
// Where the client is a Transactor everything is one transaction.
func Ensure(ctx context.Context, c client.Interface) error {
	var ops []client.Op
	for _, want := range append(Ground(), Objects()...) {
		r := schema.ResourceOf(want)
		have, err := c.Get(ctx, r, schema.KeyOf(want))
		if apierrors.IsNotFound(err) {
			have = nil
		} else if err != nil {
			return fmt.Errorf("get %s %s: %w", r, schema.KeyOf(want), err)
		}
		ops = append(ops, reconcile(r, have, want)...)
	}
	return writeAll(ctx, c, ops)
}

// reconcile decides what to write so that an object is as wanted.
func reconcile(r *schema.Resource, have, want schema.Object) []client.Op {
	op := client.Op{Resource: r, Key: schema.KeyOf(want), FieldManager: FieldManager}
	if have == nil {
		op.Verb, op.Object = client.VerbCreate, want
		return []client.Op{op}
	}
	if r.Group != rbacv1.GroupName || have.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" || declaredInGit(have) {
		return nil
	}
	if roleRef(have) != roleRef(want) { // immutable: only by a new object
		del := op
		del.Verb = client.VerbDelete
		op.Verb, op.Object = client.VerbCreate, want
		return []client.Op{del, op}
	}
	next := extended(have, want)
	if equality.Semantic.DeepEqual(have, next) {
		return nil
	}
	op.Verb, op.Object, op.ResourceVersion = client.VerbUpdate, next, have.GetResourceVersion()
	return []client.Op{op}
}

func declaredInGit(o schema.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "writ" && m.Operation == "Apply"
	})
}

func roleRef(o schema.Object) rbacv1.RoleRef {
	switch o := o.(type) {
	case *rbacv1.RoleBinding:
		return o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		return o.RoleRef
	}
	return rbacv1.RoleRef{}
}

// extended returns a copy of have with everything that want demands.
func extended(have, want schema.Object) schema.Object {
	next := have.DeepCopyObject().(schema.Object)
	next.SetLabels(merged(have.GetLabels(), want.GetLabels()))
	next.SetAnnotations(merged(have.GetAnnotations(), want.GetAnnotations()))
	switch n := next.(type) {
	case *rbacv1.Role:
		n.Rules = extendRules(n.Rules, want.(*rbacv1.Role).Rules)
	case *rbacv1.ClusterRole:
		w := want.(*rbacv1.ClusterRole)
		if n.AggregationRule = w.AggregationRule; w.AggregationRule == nil {
			n.Rules = extendRules(n.Rules, w.Rules)
		}
	case *rbacv1.RoleBinding:
		n.Subjects = extendSubjects(n.Subjects, want.(*rbacv1.RoleBinding).Subjects)
	case *rbacv1.ClusterRoleBinding:
		n.Subjects = extendSubjects(n.Subjects, want.(*rbacv1.ClusterRoleBinding).Subjects)
	}
	return next
}

func extendRules(have, want []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	_, missing := validation.Covers(have, want)
	return append(have, missing...)
}

func extendSubjects(have, want []rbacv1.Subject) []rbacv1.Subject {
	for _, s := range want {
		if !slices.Contains(have, s) {
			have = append(have, s)
		}
	}
	return have
}

func writeAll(ctx context.Context, c client.Interface, ops []client.Op) error {
	if len(ops) == 0 {
		return nil
	}
	if t, ok := c.(client.Transactor); ok {
		if _, err := t.Transact(ctx, ops, false); err != nil {
			return fmt.Errorf("write default roles: %w", err)
		}
		return nil
	}
	for _, op := range ops {
		if err := writeOne(ctx, c, op); err != nil {
			return fmt.Errorf("%s %s %s: %w", op.Verb, op.Resource, op.Key, err)
		}
	}
	return nil
}

func writeOne(ctx context.Context, c client.Interface, op client.Op) error {
	var err error
	opts := client.WriteOptions{FieldManager: op.FieldManager}
	switch op.Verb {
	case client.VerbCreate:
		_, err = c.Create(ctx, op.Resource, op.Object, opts)
	case client.VerbUpdate:
		_, err = c.Update(ctx, op.Resource, op.Object, opts)
	case client.VerbDelete:
		err = c.Delete(ctx, op.Resource, op.Key, client.DeleteOptions{})
	}
	return err
}
