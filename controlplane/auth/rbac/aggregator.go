package rbac

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// aggregationManager is upstream's name for whoever writes the union.
const aggregationManager = "clusterrole-aggregation-controller"

// Aggregated returns an aggregated ClusterRole with the rules of the roles
// that it selects, sorted by their names and without repetitions, as upstream
// writes it. changed is false for a role that has no aggregation rule or has
// these rules already. The role is not changed.
func Aggregated(role *rbacv1.ClusterRole, all map[string]*rbacv1.ClusterRole) (next *rbacv1.ClusterRole, changed bool) {
	if role.AggregationRule == nil {
		return role, false
	}
	var rules []rbacv1.PolicyRule
	for _, name := range selected(role.AggregationRule, all) {
		if name == role.Name {
			continue
		}
		for _, r := range all[name].Rules {
			if !hasRule(rules, &r) {
				rules = append(rules, r)
			}
		}
	}
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return role, false
	}
	next = role.DeepCopy()
	next.Rules = rules
	return next, true
}

func hasRule(rules []rbacv1.PolicyRule, r *rbacv1.PolicyRule) bool {
	for i := range rules {
		if equality.Semantic.DeepEqual(&rules[i], r) {
			return true
		}
	}
	return false
}

// Aggregator writes into aggregated ClusterRoles what they grant, for those
// who read them. Decisions do not need it: the Authorizer resolves aggregation
// by itself, at once.
//
// Watches ClusterRoles. Owns the rules of those with an aggregation rule.
type Aggregator struct {
	Client client.Writer
	Cache  client.Cache
	Log    *slog.Logger
}

// aggregateRetry is the pause after a write that failed.
const aggregateRetry = time.Second

// Run keeps the unions up to date until ctx ends.
func (a *Aggregator) Run(ctx context.Context) error {
	dirty := make(chan struct{}, 1)
	mark := func(client.Event) {
		select {
		case dirty <- struct{}{}:
		default:
		}
	}
	if err := a.Cache.Subscribe(ctx, schema.ResourceFor[*rbacv1.ClusterRole](), mark); err != nil {
		return fmt.Errorf("subscribe to clusterroles: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-dirty:
		}
		err := a.Reconcile(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		a.Log.Error("aggregated roles not written", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(aggregateRetry):
			mark(client.Event{})
		}
	}
}

// Reconcile writes the unions that are out of date. One that selects another
// follows when that has been written.
func (a *Aggregator) Reconcile(ctx context.Context) error {
	r := schema.ResourceFor[*rbacv1.ClusterRole]()
	all := map[string]*rbacv1.ClusterRole{}
	for _, o := range a.Cache.List(r, "") {
		role := o.(*rbacv1.ClusterRole)
		all[role.Name] = role
	}
	for _, role := range all {
		next, changed := Aggregated(role, all)
		if !changed || role.DeletionTimestamp != nil {
			continue
		}
		// With its resourceVersion: a change in between wakes us again.
		_, err := a.Client.Update(ctx, r, next, client.WriteOptions{FieldManager: aggregationManager})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write rules of ClusterRole %s: %w", role.Name, err)
		}
	}
	return nil
}
