package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// The keys of the Secret of a notification. address stands in the place of the
// URL of the notification, for URLs that are secrets themselves, as Slack's.
const (
	tokenKey   = "token"
	addressKey = "address"
	caKey      = "ca.crt"
)

// target is all that a call needs besides the message.
type target struct {
	url     string
	token   string
	ca      []byte
	cluster string
	page    string // of the commit
}

// call is a POST of JSON.
type call struct {
	url    string
	header http.Header
	body   []byte
}

// readTarget reads the Secret that a notification names. repository is the URL
// of the Repository, which stands for that of a forge that has none. Errors
// never hold what the Secret does.
func readTarget(ctx context.Context, c client.Reader, n *v1alpha1.Notification, repository string) (target, error) {
	t := target{url: n.URL}
	if t.url == "" && isForge(n.Type) {
		t.url = repository
	}
	if n.Secret != "" {
		key, err := secretKey(n.Secret)
		if err != nil {
			return t, err
		}
		s, err := client.Get[*corev1.Secret](ctx, c, key)
		if err != nil {
			return t, fmt.Errorf("read secret %s: %w", n.Secret, err)
		}
		t.token, t.ca = strings.TrimSpace(string(s.Data[tokenKey])), s.Data[caKey]
		if a := strings.TrimSpace(string(s.Data[addressKey])); a != "" {
			t.url = a
		}
		if strings.ContainsAny(t.token, "\r\n") {
			return t, fmt.Errorf("the key %q of secret %s has several lines", tokenKey, n.Secret)
		}
	}
	return t, checkURL(t.url)
}

// secretKey takes namespace/name apart. There is no default namespace: a
// notification reads that one Secret.
func secretKey(s string) (schema.Key, error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return schema.Key{}, fmt.Errorf("secret %q is not namespace/name", s)
	}
	return schema.Key{Namespace: namespace, Name: name}, nil
}

var errNoURL = errors.New("the URL cannot be read")

// checkURL refuses URLs that are not for notifications. The URL may be a
// secret and is not in the error.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return errors.New("there is no URL; set url, or the key \"address\" of the Secret")
	case err != nil:
		return errNoURL
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("the URL begins with %q; only https and http are called", cut(u.Scheme, 20)+":")
	case u.Host == "":
		return errors.New("the URL has no host")
	case u.User != nil:
		return fmt.Errorf("the URL has a password in it; put it under the key %q of a Secret", tokenKey)
	}
	return nil
}

// newCall makes the call that tells of a message.
func newCall(m *Message, kind string, t target) (call, error) {
	switch {
	case kind == "webhook":
		return webhookCall(m, t)
	case kind == "slack":
		return slackCall(m, t)
	case isForge(kind):
		return forgeCall(m, kind, t)
	}
	return call{}, fmt.Errorf("type %q is not known; use webhook, slack, github, gitlab or gitea", kind)
}
