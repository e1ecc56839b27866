package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// verify says whether who sent a request knows the secret. Comparisons take the
// same time whatever differs.
func verify(hook Hook, h http.Header, body []byte, now time.Time) error {
	switch hook.Provider {
	case GitHub:
		return verifyHMAC(hook.Secret, h.Get("X-Hub-Signature-256"), "sha256=", "X-Hub-Signature-256", body)
	case Bitbucket:
		return verifyHMAC(hook.Secret, h.Get("X-Hub-Signature"), "sha256=", "X-Hub-Signature", body)
	case Gitea:
		for _, name := range []string{"X-Forgejo-Signature", "X-Gitea-Signature"} {
			if got := h.Get(name); got != "" {
				return verifyHMAC(hook.Secret, got, "", name, body)
			}
		}
		return verifyHMAC(hook.Secret, "", "", "X-Gitea-Signature", body)
	case GitLab:
		if h.Get("Webhook-Signature") != "" {
			return verifyStandard(hook.Secret, h, body, now)
		}
		return verifyToken(hook.Secret, h.Get("X-Gitlab-Token"))
	case Generic:
		return verifyHMAC(hook.Secret, h.Get("X-Signature"), "sha256=", "X-Signature", body)
	}
	return refuse(http.StatusForbidden, "the webhook of this repository names no provider that is known")
}

// verifyHMAC verifies an HMAC-SHA256 of the body in hexadecimal digits.
func verifyHMAC(secret []byte, got, prefix, header string, body []byte) error {
	if got == "" {
		return refuse(http.StatusUnauthorized, "the request has no %s: set the secret at the forge, and take SHA-256", header)
	}
	digits, ok := strings.CutPrefix(got, prefix)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return refuse(http.StatusUnauthorized, "%s is no %sHMAC-SHA256 in hexadecimal digits", header, prefix)
	}
	if !hmac.Equal(sum, sign(secret, body)) {
		return wrong(header)
	}
	return nil
}

// verifyToken compares a secret that is sent as it is. Both are hashed first,
// so that the time does not tell the length.
func verifyToken(secret []byte, got string) error {
	if got == "" {
		return refuse(http.StatusUnauthorized, "the request has neither Webhook-Signature nor X-Gitlab-Token: set the secret at the forge")
	}
	a, b := sha256.Sum256(secret), sha256.Sum256([]byte(got))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return wrong("X-Gitlab-Token")
	}
	return nil
}

// verifyStandard verifies a signature of the Standard Webhooks specification,
// which GitLab's signing tokens follow: it is over id, time and body, and there
// may be several, one for each secret while they change.
func verifyStandard(secret []byte, h http.Header, body []byte, now time.Time) error {
	id, at := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" {
		return refuse(http.StatusUnauthorized, "Webhook-Signature needs Webhook-Id and Webhook-Timestamp beside it")
	}
	want := sign(standardKey(secret), []byte(id+"."+at+"."), body)
	ok := 0
	for _, s := range strings.Fields(h.Get("Webhook-Signature")) {
		digest, v1 := strings.CutPrefix(s, "v1,")
		sum, err := base64.StdEncoding.DecodeString(digest)
		if v1 && err == nil {
			ok |= subtle.ConstantTimeCompare(sum, want)
		}
	}
	if ok != 1 {
		return wrong("Webhook-Signature")
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > maxAge || age < -maxAge {
		return refuse(http.StatusForbidden, "the request was signed more than %s ago, or the clocks differ", maxAge)
	}
	return nil
}

// standardKey is the key of a signing token: what follows whsec_ in base64, or
// the token itself where it is not of that form.
func standardKey(secret []byte) []byte {
	if rest, ok := strings.CutPrefix(string(secret), "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(rest); err == nil {
			return key
		}
	}
	return secret
}

func wrong(header string) error {
	return refuse(http.StatusUnauthorized, "%s is wrong: the secret at the forge is not that of spec.webhook", header)
}

func sign(secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}
