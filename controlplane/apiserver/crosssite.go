package apiserver

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/wsstream"
)

// sameSite refuses what a browser was made to send by a page of another site:
// it adds the client's certificate or password to that by itself. Writes count,
// and connections that are upgraded, which run commands and are opened by GET.
// What sends neither Sec-Fetch-Site nor Origin is no browser: kubectl, client-go,
// git, forges. And nobody but the page itself adds a bearer token, which takes a
// preflight that this server never answers.
func sameSite(r *http.Request) error {
	if token := r.Header.Get("Authorization"); len(token) > 7 && strings.EqualFold(token[:7], "bearer ") {
		return nil
	}
	var p http.CrossOriginProtection
	if wsstream.IsWebSocketRequest(r) || httpstream.IsUpgradeRequest(r) {
		r = &http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL} // not safe, whatever it is called
		for _, o := range libraryOrigins {
			if err := p.AddTrustedOrigin(o); err != nil {
				return apierrors.NewInternalError(err)
			}
		}
	}
	if err := p.Check(r); err != nil {
		return apierrors.NewForbidden(kschema.GroupResource{}, "", errors.New("the request comes from a page of another site"))
	}
	return nil
}

// libraryOrigins is what programs say that open WebSockets and are no browsers,
// where their library wants an origin: golang.org/x/net/websocket in the tests
// of Kubernetes. A page of that origin is one of the reader's own machine.
var libraryOrigins = []string{"http://localhost", "https://localhost"}

// sandboxed has a browser give what a proxied page says no rights of this
// server's origin, where it could ask for whatever its reader may (CSP level 3,
// "sandbox").
func sandboxed(h http.Header) { h.Set("Content-Security-Policy", "sandbox") }
