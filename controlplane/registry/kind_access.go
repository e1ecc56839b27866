package registry

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

func accessRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*rbacv1.Role]()] = &rule{name: pathSegment}
	rules[schema.ResourceFor[*rbacv1.ClusterRole]()] = &rule{name: pathSegment}
	rules[schema.ResourceFor[*rbacv1.RoleBinding]()] = &rule{
		name: pathSegment, ownImmutable: true,
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return roleRefErrors(o.(*rbacv1.RoleBinding).RoleRef, old.(*rbacv1.RoleBinding).RoleRef)
		},
	}
	rules[schema.ResourceFor[*rbacv1.ClusterRoleBinding]()] = &rule{
		name: pathSegment, ownImmutable: true,
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return roleRefErrors(o.(*rbacv1.ClusterRoleBinding).RoleRef, old.(*rbacv1.ClusterRoleBinding).RoleRef)
		},
	}
}

func roleRefErrors(is, was rbacv1.RoleRef) field.ErrorList {
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), is, "cannot change roleRef")}
}
