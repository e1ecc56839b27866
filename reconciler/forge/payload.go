package forge

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/writ-os/writ/reconciler/webhook"
)

// Payload is the webhook that a provider sends for a push: ref in full, sha ""
// for a ref that is gone.
func Payload(h Hook, ref, sha string, now time.Time) (http.Header, []byte) {
	header := http.Header{"Content-Type": {"application/json"}}
	id := rand.Text()
	after := sha
	if after == "" {
		after = strings.Repeat("0", 40)
	}
	tag := strings.HasPrefix(ref, "refs/tags/")
	project := map[string]any{"full_name": h.Repository, "path_with_namespace": h.Repository}
	body := map[string]any{"ref": ref, "before": strings.Repeat("0", 40), "after": after, "repository": project, "project": project}
	switch h.Provider {
	case webhook.GitHub:
		header.Set("User-Agent", "GitHub-Hookshot/044aadd")
		header.Set("X-GitHub-Event", "push")
		header.Set("X-GitHub-Delivery", id)
	case webhook.GitLab:
		header.Set("User-Agent", "GitLab/18.10.0")
		event, kind := "Push Hook", "push"
		if tag {
			event, kind = "Tag Push Hook", "tag_push"
		}
		header.Set("X-Gitlab-Event", event)
		header.Set("Idempotency-Key", id)
		body["object_kind"] = kind
	case webhook.Gitea:
		for _, brand := range []string{"Gitea", "Gogs", "Forgejo"} {
			header.Set("X-"+brand+"-Event", "push")
			header.Set("X-"+brand+"-Delivery", id)
		}
	case webhook.Bitbucket:
		header.Set("X-Event-Key", "repo:push")
		header.Set("X-Request-UUID", id)
		body = map[string]any{"repository": project, "push": map[string]any{"changes": []any{bitbucketChange(ref, sha, tag)}}}
	default:
		header.Set("X-Delivery", id)
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and maps of them can always be encoded
	}
	Sign(h, header, b, id, now)
	return header, b
}

func bitbucketChange(ref, sha string, tag bool) map[string]any {
	kind, name := "branch", strings.TrimPrefix(ref, "refs/heads/")
	if tag {
		kind, name = "tag", strings.TrimPrefix(ref, "refs/tags/")
	}
	at := map[string]any{"type": kind, "name": name, "target": map[string]any{"hash": sha}}
	if sha == "" {
		return map[string]any{"old": at, "new": nil, "closed": true}
	}
	return map[string]any{"old": nil, "new": at}
}

// Sign adds to a webhook what shows who sent it.
func Sign(h Hook, header http.Header, body []byte, id string, now time.Time) {
	digest := func(parts ...string) []byte {
		mac := hmac.New(sha256.New, []byte(h.Secret))
		for _, p := range parts {
			mac.Write([]byte(p))
		}
		return mac.Sum(nil)
	}
	sum := hex.EncodeToString(digest(string(body)))
	switch h.Provider {
	case webhook.GitHub:
		header.Set("X-Hub-Signature-256", "sha256="+sum)
	case webhook.GitLab:
		if !h.Sign {
			header.Set("X-Gitlab-Token", h.Secret)
			return
		}
		at := strconv.FormatInt(now.Unix(), 10)
		header.Set("Webhook-Id", id)
		header.Set("Webhook-Timestamp", at)
		header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(digest(id, ".", at, ".", string(body))))
	case webhook.Gitea:
		header.Set("X-Gitea-Signature", sum)
		header.Set("X-Forgejo-Signature", sum)
		header.Set("X-Hub-Signature-256", "sha256="+sum)
	case webhook.Bitbucket:
		header.Set("X-Hub-Signature", "sha256="+sum)
	default:
		header.Set("X-Signature", "sha256="+sum)
	}
}
