package token

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

const (
	// leeway is how much clocks may differ, and for how long a token outlives
	// the deletion of what it is bound to.
	leeway = time.Minute
	// maxToken bounds what is parsed; a token of ours has about 1 KB.
	maxToken = 16 << 10
)

// ErrForeign says that a token is none of ours: another issuer's, or no JWT at
// all. Another authenticator may know it.
var ErrForeign = errors.New("token of another issuer")

// errLegacy says that a token is of the kind that lies in a Secret.
var errLegacy = errors.New("token of a secret")

// legacyFor checks a token of a Secret. It has no audiences: it is for the API
// server.
func (a *Authority) legacyFor(token string, wanted []string) (user.Info, []string, error) {
	got := slices.DeleteFunc(slices.Clone(wanted), func(w string) bool { return !slices.Contains(a.cfg.Audiences, w) })
	if len(got) == 0 {
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", a.cfg.Audiences, wanted)
	}
	u, err := a.authenticateLegacy(token)
	if err != nil {
		return nil, nil, err
	}
	return u, got, nil
}

// Authenticate says whom a token speaks for and which of the wanted audiences
// it has. With no audiences wanted it must have one of the API server's.
func (a *Authority) Authenticate(token string, wanted []string) (user.Info, []string, error) {
	if len(wanted) == 0 {
		wanted = a.cfg.Audiences
	}
	c, err := a.verify(token)
	if errors.Is(err, errLegacy) {
		return a.legacyFor(token, wanted)
	}
	if err != nil {
		return nil, nil, err
	}
	got := slices.DeleteFunc(slices.Clone(wanted), func(w string) bool { return !slices.Contains(c.Audience, w) })
	if len(got) == 0 {
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", []string(c.Audience), wanted)
	}
	now := a.cfg.Now()
	if err := checkTimes(c, now); err != nil {
		return nil, nil, err
	}
	if err := a.checkBound(&c.Kubernetes, now); err != nil {
		return nil, nil, err
	}
	return c.user(), got, nil
}

// verify checks the signature and returns the claims, which may be shared.
func (a *Authority) verify(token string) (*claims, error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, ErrForeign
	}
	id := sha256.Sum256([]byte(token))
	if c := a.seen.get(id); c != nil {
		return c, nil
	}
	c := new(claims)
	switch _, _, err := a.parser.ParseUnverified(token, c); {
	case err != nil:
		return nil, ErrForeign
	case c.Issuer == LegacyIssuer:
		return nil, errLegacy
	case c.Issuer != a.cfg.Issuer:
		return nil, ErrForeign
	}
	c = new(claims)
	if _, err := a.parser.ParseWithClaims(token, c, a.verifyKey); err != nil {
		return nil, fmt.Errorf("verify service account token: %w", err)
	}
	if c.Subject != serviceaccount.MakeUsername(c.Kubernetes.Namespace, c.Kubernetes.ServiceAccount.Name) || c.ExpiresAt == nil {
		return nil, errors.New("verify service account token: subject and claims differ")
	}
	a.seen.put(id, c)
	return c, nil
}

func checkTimes(c *claims, now time.Time) error {
	switch {
	case now.After(c.ExpiresAt.Add(leeway)):
		return errors.New("service account token has expired")
	case c.NotBefore != nil && now.Before(c.NotBefore.Add(-leeway)):
		return errors.New("service account token is not valid yet")
	case c.IssuedAt != nil && now.Before(c.IssuedAt.Add(-leeway)):
		return errors.New("service account token is issued in the future")
	}
	return nil
}

// checkBound says whether everything that the token names still exists.
func (a *Authority) checkBound(k *kubernetesClaims, now time.Time) error {
	key := func(name string) schema.Key { return schema.Key{Namespace: k.Namespace, Name: name} }
	sa, ok := client.Cached[*corev1.ServiceAccount](a.cfg.Cache, key(k.ServiceAccount.Name))
	switch {
	case !ok:
		return fmt.Errorf("serviceaccounts %q not found", k.ServiceAccount.Name)
	case string(sa.UID) != k.ServiceAccount.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", sa.UID, k.ServiceAccount.UID)
	case gone(sa, now):
		return fmt.Errorf("service account %s has been deleted", schema.KeyOf(sa))
	}
	if k.Secret != nil {
		o, ok := client.Cached[*corev1.Secret](a.cfg.Cache, key(k.Secret.Name))
		if err := bound("secret", o, ok, k.Secret, now); err != nil {
			return err
		}
	}
	if k.Pod != nil {
		o, ok := client.Cached[*corev1.Pod](a.cfg.Cache, key(k.Pod.Name))
		if err := bound("pod", o, ok, k.Pod, now); err != nil {
			return err
		}
	} else if k.Node != nil {
		// Beside a pod the node is only told, not bound.
		o, ok := client.Cached[*corev1.Node](a.cfg.Cache, schema.Key{Name: k.Node.Name})
		if err := bound("node", o, ok, k.Node, now); err != nil {
			return err
		}
	}
	return nil
}

var errInvalidated = errors.New("service account token has been invalidated")

// bound says whether the object that a claim names is still the one it was.
func bound(kind string, o metav1.Object, ok bool, r *ref, now time.Time) error {
	switch {
	case !ok:
		return errInvalidated
	case string(o.GetUID()) != r.UID:
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", kind, o.GetUID(), kind, r.UID)
	case gone(o, now):
		return errInvalidated
	}
	return nil
}

func gone(o metav1.Object, now time.Time) bool {
	t := o.GetDeletionTimestamp()
	return t != nil && t.Time.Before(now.Add(-leeway))
}

// user returns whom the claims speak for.
func (c *claims) user() user.Info {
	info := serviceaccount.ServiceAccountInfo{
		Name:         c.Kubernetes.ServiceAccount.Name,
		Namespace:    c.Kubernetes.Namespace,
		UID:          c.Kubernetes.ServiceAccount.UID,
		CredentialID: "JTI=" + c.ID,
	}
	if p := c.Kubernetes.Pod; p != nil {
		info.PodName, info.PodUID = p.Name, p.UID
	}
	if n := c.Kubernetes.Node; n != nil {
		info.NodeName, info.NodeUID = n.Name, n.UID
	}
	return info.UserInfo()
}

// seen remembers the claims of tokens whose signature was verified, by hash:
// checking a signature costs 60 us, and clients send the same token with
// every request. Everything that can change is checked again at each use.
type seen struct {
	mu     sync.RWMutex
	claims map[[sha256.Size]byte]*claims
}

// maxSeen bounds the memory: about 1 KB a token.
const maxSeen = 4096

func (s *seen) get(id [sha256.Size]byte) *claims {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claims[id]
}

func (s *seen) put(id [sha256.Size]byte, c *claims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims == nil || len(s.claims) >= maxSeen {
		s.claims = map[[sha256.Size]byte]*claims{}
	}
	s.claims[id] = c
}
