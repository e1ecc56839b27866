package token

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

const (
	defaultExpiration = 3600
	minExpiration     = 10 * 60
	maxExpiration     = 1 << 32
	// projected is what the token volume of every pod asks for. Clients that
	// do not read the file again are let off for a year, as upstream.
	projected         = 60*60 + 7
	projectedExtended = 365 * 24 * 60 * 60
)

var requestKind = kschema.GroupKind{Group: "authentication.k8s.io", Kind: "TokenRequest"}

// Request answers a POST to serviceaccounts/<name>/token by the user of the
// context. Errors are those of the API. The request is not changed.
func (a *Authority) Request(ctx context.Context, key schema.Key, in *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	sa, ok := client.Cached[*corev1.ServiceAccount](a.cfg.Cache, key)
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), key.Name)
	}
	now := a.cfg.Now()
	out := in.DeepCopy()
	out.APIVersion, out.Kind = "authentication.k8s.io/v1", "TokenRequest"
	if err := complete(out, sa, a.cfg.Audiences); err != nil {
		return nil, err
	}
	out.CreationTimestamp = metav1.NewTime(now)
	if err := a.checkNode(ctx, key, out.Spec.BoundObjectRef); err != nil {
		return nil, err
	}
	bound, err := a.bind(sa, out.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	seconds := *out.Spec.ExpirationSeconds
	if bound.Pod != nil && seconds == projected && subset(out.Spec.Audiences, a.cfg.Audiences) {
		bound.WarnAfter = jwt.NewNumericDate(now.Add(projected * time.Second))
		seconds = projectedExtended
	}
	token, err := a.sign(sa, bound, out.Spec.Audiences, now, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	out.Status = authenticationv1.TokenRequestStatus{
		Token:               token,
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(*out.Spec.ExpirationSeconds) * time.Second)),
	}
	return out, nil
}

// checkNode lets a node ask for tokens of pods that are bound to it only: the
// user of the request is the context's.
func (a *Authority) checkNode(ctx context.Context, key schema.Key, b *authenticationv1.BoundObjectReference) error {
	u, _ := request.UserFrom(ctx)
	node, ok := identity.NodeName(u)
	if !ok {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return apierrors.NewForbidden(corev1.Resource("serviceaccounts"), key.Name, fmt.Errorf(format, args...))
	}
	if b == nil || b.APIVersion != "v1" || b.Kind != "Pod" || b.Name == "" {
		return refuse("node requested token not bound to a pod")
	}
	if b.UID == "" {
		return refuse("node requested token with a pod binding without a uid")
	}
	pod, ok := client.Cached[*corev1.Pod](a.cfg.Cache, schema.Key{Namespace: key.Namespace, Name: b.Name})
	switch {
	case !ok:
		return apierrors.NewNotFound(corev1.Resource("pods"), b.Name)
	case pod.UID != b.UID:
		return refuse("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", b.UID)
	case pod.Spec.NodeName != node:
		return refuse("node requested token bound to a pod scheduled on a different node")
	}
	return nil
}

// complete checks a request against its service account and fills in what it
// leaves out.
func complete(r *authenticationv1.TokenRequest, sa *corev1.ServiceAccount, audiences []string) error {
	var errs field.ErrorList
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	if r.Name != "" && r.Name != sa.Name {
		errs = append(errs, field.Invalid(meta.Child("name"), r.Name, "must match the service account name if specified"))
	}
	if r.Namespace != "" && r.Namespace != sa.Namespace {
		errs = append(errs, field.Invalid(meta.Child("namespace"), r.Namespace, "must match the service account namespace if specified"))
	}
	if r.UID != "" && r.UID != sa.UID {
		return conflict("TokenRequest", sa.Name, fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", r.UID, sa.UID))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(requestKind, sa.Name, errs)
	}
	r.Name, r.Namespace, r.UID = sa.Name, sa.Namespace, sa.UID
	if len(r.Spec.Audiences) == 0 {
		r.Spec.Audiences = audiences
	}
	if r.Spec.ExpirationSeconds == nil {
		r.Spec.ExpirationSeconds = new(int64)
		*r.Spec.ExpirationSeconds = defaultExpiration
	}
	switch s := *r.Spec.ExpirationSeconds; {
	case s < minExpiration:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), s, "may not specify a duration less than 10 minutes"))
	case s > maxExpiration:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), s, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(requestKind, "", errs) // upstream leaves out the name here
	}
	return nil
}

// bind looks up the object that a token is to be bound to.
func (a *Authority) bind(sa *corev1.ServiceAccount, b *authenticationv1.BoundObjectReference) (kubernetesClaims, error) {
	c := kubernetesClaims{
		Namespace:      sa.Namespace,
		ServiceAccount: ref{Name: sa.Name, UID: string(sa.UID)},
	}
	if b == nil {
		return c, nil
	}
	gvk := kschema.FromAPIVersionAndKind(b.APIVersion, b.Kind)
	key := schema.Key{Namespace: sa.Namespace, Name: b.Name}
	var uid types.UID
	switch {
	case gvk.Group == "" && gvk.Kind == "Pod":
		pod, ok := client.Cached[*corev1.Pod](a.cfg.Cache, key)
		if !ok {
			return c, apierrors.NewNotFound(corev1.Resource("pods"), b.Name)
		}
		if pod.Spec.ServiceAccountName != sa.Name {
			return c, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", sa.Name))
		}
		uid, c.Pod = pod.UID, &ref{Name: pod.Name, UID: string(pod.UID)}
		if pod.Spec.NodeName != "" {
			c.Node = a.nodeRef(pod.Spec.NodeName)
		}
	case gvk.Group == "" && gvk.Kind == "Node":
		node, ok := client.Cached[*corev1.Node](a.cfg.Cache, schema.Key{Name: b.Name})
		if !ok {
			return c, apierrors.NewNotFound(corev1.Resource("nodes"), b.Name)
		}
		uid, c.Node = node.UID, &ref{Name: node.Name, UID: string(node.UID)}
	case gvk.Group == "" && gvk.Kind == "Secret":
		secret, ok := client.Cached[*corev1.Secret](a.cfg.Cache, key)
		if !ok {
			return c, apierrors.NewNotFound(corev1.Resource("secrets"), b.Name)
		}
		uid, c.Secret = secret.UID, &ref{Name: secret.Name, UID: string(secret.UID)}
	default:
		return c, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	if b.UID != "" && b.UID != uid {
		return c, conflict(b.Kind, b.Name, fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", b.UID))
	}
	return c, nil
}

// nodeRef names a pod's node; without a UID when the node is gone.
func (a *Authority) nodeRef(name string) *ref {
	r := &ref{Name: name}
	if node, ok := client.Cached[*corev1.Node](a.cfg.Cache, schema.Key{Name: name}); ok {
		r.UID = string(node.UID)
	}
	return r
}

func (a *Authority) sign(sa *corev1.ServiceAccount, k kubernetesClaims, audiences []string, now time.Time, ttl time.Duration) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodES256, &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    a.cfg.Issuer,
			Subject:   serviceaccount.MakeUsername(sa.Namespace, sa.Name),
			Audience:  audiences,
			ID:        uuid.NewString(),
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
		Kubernetes: k,
	})
	t.Header["kid"] = a.keyID
	delete(t.Header, "typ") // upstream's tokens have none
	s, err := t.SignedString(a.cfg.Key)
	if err != nil {
		return "", fmt.Errorf("sign token of %s/%s: %w", sa.Namespace, sa.Name, err)
	}
	return s, nil
}

func conflict(kind, name string, err error) error {
	return apierrors.NewConflict(kschema.GroupResource{Group: "", Resource: kind}, name, err)
}

func subset(of, all []string) bool {
	for _, s := range of {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return true
}
