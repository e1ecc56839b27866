// Package impersonation decides whether a user may act as another, whom the
// Impersonate-* headers of a request name (KEP-5284, constrained
// impersonation, and impersonation as it was before).
//
// It watches nothing and owns nothing but a memory of which way succeeded for
// whom. It promises that every part of the wanted identity was allowed: a header
// that was ignored would let a request run with more rights than its sender
// meant to use.
package impersonation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/lru"
)

// rememberMost bounds the memory of ways: about 100 bytes a user.
const rememberMost = 10_000

// Checker decides who may act as whom. It is safe for concurrent use.
type Checker struct {
	authorizer authorizer.Authorizer
	// last is the way that succeeded for a user name. It is tried first, which
	// makes up for the many ways, and decides which refusal is told.
	last *lru.Cache
}

// New returns a checker that asks an authorizer.
func New(a authorizer.Authorizer) *Checker {
	return &Checker{authorizer: a, last: lru.New(rememberMost)}
}

// Refusal says which permission is missing, and why if the authorizer said it.
type Refusal struct {
	Attributes authorizer.Attributes
	Reason     string
}

// Error implements error.
func (r *Refusal) Error() string {
	u := r.Attributes.GetUser()
	return fmt.Sprintf("user %q may not %s %s %q", u.GetName(), r.Attributes.GetVerb(), r.Attributes.GetResource(), r.Attributes.GetName())
}

// errNoWay cannot happen: impersonation of old fits everybody.
var errNoWay = errors.New("all impersonation modes failed")

// User returns the user that a request, described by attrs, is to run as. The
// constraint is the verb that allowed it, for the audit log; "" for
// impersonation of old. The error is a *Refusal, the first of all ways, or one
// of the API.
func (c *Checker) User(ctx context.Context, wanted *user.DefaultInfo, attrs authorizer.AttributesRecord) (u user.Info, constraint string, err error) {
	name := attrs.User.GetName()
	order := ways
	if v, ok := c.last.Get(name); ok {
		order = slices.Concat([]*way{v.(*way)}, ways)
	}
	for i, w := range order {
		if i > 0 && len(order) > len(ways) && w == order[0] || !w.fits(wanted, attrs.User) {
			continue
		}
		u, werr := c.try(ctx, w, wanted, attrs)
		if werr == nil {
			c.last.Add(name, w)
			return u, w.constraint(), nil
		}
		if err == nil {
			err = werr
		}
	}
	if err == nil {
		err = errNoWay
	}
	return nil, "", err
}

// try checks all permissions of one way.
func (c *Checker) try(ctx context.Context, w *way, wanted *user.DefaultInfo, attrs authorizer.AttributesRecord) (user.Info, error) {
	requestor := w.requestor(attrs.User)
	if w.name != "" {
		on := attrs
		on.User, on.Verb = requestor, "impersonate-on:"+w.name+":"+attrs.Verb
		if err := c.allowed(ctx, on); err != nil {
			return nil, err
		}
	}
	for _, q := range w.questions(wanted) {
		q.User, q.Verb, q.ResourceRequest = requestor, w.verb(), true
		if err := c.ask(ctx, q); err != nil {
			return nil, err
		}
	}
	return w.become(wanted), nil
}

// ask asks one question; of many alike first for all of them at once.
func (c *Checker) ask(ctx context.Context, q question) error {
	if q.refused != "" {
		return &Refusal{Attributes: q.AttributesRecord, Reason: q.refused}
	}
	err := c.allowed(ctx, q.AttributesRecord)
	if err == nil || len(q.instead) == 0 {
		return err
	}
	for _, one := range q.instead {
		one.User, one.Verb, one.ResourceRequest = q.User, q.Verb, true
		if err := c.allowed(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// allowed asks the authorizer.
func (c *Checker) allowed(ctx context.Context, a authorizer.AttributesRecord) error {
	decision, reason, err := c.authorizer.Authorize(ctx, a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case apierrors.IsForbidden(err):
		return err
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return &Refusal{Attributes: a, Reason: reason}
}
