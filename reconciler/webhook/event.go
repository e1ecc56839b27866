package webhook

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// event is what a request says, as far as it matters.
type event struct {
	push, ping bool
	refs       []string // in full; none when the push does not say
	delivery   string   // id of the delivery; "" when there is none
}

// parse reads a request whose signature holds.
func parse(p Provider, h http.Header, body []byte) (event, error) {
	var e event
	switch p {
	case GitHub:
		e = named(h.Get("X-GitHub-Event"), h.Get("X-GitHub-Delivery"), "push", "create")
	case Gitea:
		e = named(first(h, "X-Forgejo-Event", "X-Gitea-Event", "X-Gogs-Event"), first(h, "X-Forgejo-Delivery", "X-Gitea-Delivery", "X-Gogs-Delivery"), "push", "create")
	case GitLab:
		e = named(h.Get("X-Gitlab-Event"), first(h, "Webhook-Id", "Idempotency-Key", "X-Gitlab-Webhook-UUID"), "Push Hook", "Tag Push Hook", "System Hook")
		if h.Get("Webhook-Id") == "" && h.Get("Idempotency-Key") == "" {
			e.delivery = "" // the UUID is that of the webhook, not of the delivery
		}
	case Bitbucket:
		e = named(h.Get("X-Event-Key"), first(h, "X-Request-UUID", "X-Request-Id"), "repo:push", "repo:refs_changed")
		e.ping = e.ping || h.Get("X-Event-Key") == "diagnostics:ping"
	default:
		e = event{push: true, delivery: h.Get("X-Delivery")}
	}
	if len(e.delivery) > maxDelivery {
		return event{}, refuse(http.StatusBadRequest, "the id of the delivery is too long")
	}
	if !e.push {
		return e, nil
	}
	data, err := payload(h, body)
	if err != nil {
		return event{}, err
	}
	var m message
	if len(bytes.TrimSpace(data)) > 0 || p != Generic {
		if err := json.Unmarshal(data, &m); err != nil {
			return event{}, refuse(http.StatusBadRequest, "the body is not the JSON of a push")
		}
	}
	e.refs = m.refs()
	return e, nil
}

// maxDelivery is the longest id of a delivery that is remembered.
const maxDelivery = 200

func named(name, delivery string, pushes ...string) event {
	e := event{ping: name == "ping", delivery: delivery}
	for _, p := range pushes {
		e.push = e.push || name == p
	}
	return e
}

func first(h http.Header, names ...string) string {
	for _, n := range names {
		if v := h.Get(n); v != "" {
			return v
		}
	}
	return ""
}

// payload takes the JSON out of a body: GitHub and Gitea send it also as a
// field of a form.
func payload(h http.Header, body []byte) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		return body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is not a form: let the forge send application/json")
	}
	return []byte(form.Get("payload")), nil
}

// message is the part of all the payloads that names refs.
type message struct {
	Ref     string `json:"ref"`      // GitHub, GitLab, Gitea, generic
	RefType string `json:"ref_type"` // of a create event, whose ref is short
	Push    struct {
		Changes []struct { // Bitbucket Cloud
			New *bitbucketRef `json:"new"`
			Old *bitbucketRef `json:"old"`
		} `json:"changes"`
	} `json:"push"`
	Changes []struct { // Bitbucket Data Center
		RefID string `json:"refId"`
	} `json:"changes"`
}

type bitbucketRef struct {
	Type string `json:"type"` // branch, tag
	Name string `json:"name"`
}

func (r *bitbucketRef) full() string {
	if r.Type == "tag" || r.Type == "annotated_tag" {
		return "refs/tags/" + r.Name
	}
	return "refs/heads/" + r.Name
}

// refs are the refs that the push moved.
func (m *message) refs() []string {
	var out []string
	switch {
	case strings.HasPrefix(m.Ref, "refs/"):
		out = append(out, m.Ref)
	case m.Ref != "" && m.RefType == "tag":
		out = append(out, "refs/tags/"+m.Ref)
	case m.Ref != "":
		out = append(out, "refs/heads/"+m.Ref)
	}
	for _, c := range m.Push.Changes {
		switch {
		case c.New != nil:
			out = append(out, c.New.full())
		case c.Old != nil:
			out = append(out, c.Old.full())
		}
	}
	for _, c := range m.Changes {
		if c.RefID != "" {
			out = append(out, c.RefID)
		}
	}
	return out
}
