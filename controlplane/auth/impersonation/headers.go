package impersonation

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Wanted reads the Impersonate-* headers and removes them: whoever is behind
// must not see that the user is another. nil without an error means that there
// are none. The error, one of the API, says that they name no user.
func Wanted(h http.Header) (*user.DefaultInfo, error) {
	if !given(h) {
		return nil, nil
	}
	u := &user.DefaultInfo{Name: h.Get(authenticationv1.ImpersonateUserHeader), UID: h.Get(authenticationv1.ImpersonateUIDHeader)}
	u.Groups = slices.Clone(h[authenticationv1.ImpersonateGroupHeader])
	var names []string
	for name, values := range h {
		key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		names = append(names, name)
		if len(values) == 0 {
			continue
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		key = unescape(strings.ToLower(key))
		u.Extra[key] = append(u.Extra[key], values...)
	}
	if u.Name == "" {
		if u.UID != "" || len(u.Groups) > 0 || len(names) > 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %#v without impersonating a user name", u))
		}
		return nil, nil
	}
	for _, name := range append(names, authenticationv1.ImpersonateUserHeader, authenticationv1.ImpersonateUIDHeader, authenticationv1.ImpersonateGroupHeader) {
		delete(h, name)
	}
	return u, nil
}

// given says whether there are any such headers.
func given(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// unescape decodes the key of an extra value; one that is not encoded well is
// taken as it stands.
func unescape(key string) string {
	if k, err := url.PathUnescape(key); err == nil {
		return k
	}
	return key
}
