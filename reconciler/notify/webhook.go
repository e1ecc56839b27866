package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Bounds of what is told.
const (
	maxFindings = 20
	maxText     = 1000 // bytes of one text
)

// The headers of a webhook.
const (
	// SignatureHeader is "sha256=" and the hexadecimal HMAC-SHA256 of the body
	// with the token of the Secret, as GitHub's X-Hub-Signature-256.
	SignatureHeader = "X-Writ-Signature"
	// DeliveryHeader is the same for each try of one message, so that a
	// receiver knows what it has had.
	DeliveryHeader = "X-Writ-Delivery"
	// EventHeader is Event.Event.
	EventHeader = "X-Writ-Event"
)

// Event is the body of a webhook, in JSON. Fields may be added.
type Event struct {
	// ID is that of the DeliveryHeader.
	ID string `json:"id"`
	// Event is commit.pending, commit.applied, commit.healthy, commit.failed,
	// commit.rolledback or commit.superseded.
	Event      string               `json:"event"`
	Cluster    string               `json:"cluster,omitempty"`
	Repository string               `json:"repository"`
	Branch     string               `json:"branch,omitempty"`
	SHA        string               `json:"sha"`
	Parent     string               `json:"parent,omitempty"`
	Phase      v1alpha1.CommitPhase `json:"phase"`
	Reason     string               `json:"reason,omitempty"`
	Message    string               `json:"message,omitempty"`
	Author     string               `json:"author,omitempty"`
	// Title is the first line of the commit's message.
	Title  string `json:"title,omitempty"`
	Times  Times  `json:"times"`
	Counts Counts `json:"counts"`
	// Findings are why the commit was refused, the first 20;
	// FindingsOmitted how many more there are.
	Findings        []v1alpha1.Finding      `json:"findings,omitempty"`
	FindingsOmitted int                     `json:"findingsOmitted,omitempty"`
	Unhealthy       []v1alpha1.ObjectHealth `json:"unhealthy,omitempty"`
	RolledBackTo    string                  `json:"rolledBackTo,omitempty"`
	// URL is the page of the commit.
	URL string `json:"url,omitempty"`
}

// Times are when the commit came to each phase, in RFC 3339.
type Times struct {
	Committed *time.Time `json:"committed,omitempty"`
	Seen      *time.Time `json:"seen,omitempty"`
	Rendered  *time.Time `json:"rendered,omitempty"`
	Planned   *time.Time `json:"planned,omitempty"`
	Applied   *time.Time `json:"applied,omitempty"`
	Healthy   *time.Time `json:"healthy,omitempty"`
	Failed    *time.Time `json:"failed,omitempty"`
}

// Counts are how many objects the commit declares, what it did to them, and
// how many are healthy.
type Counts struct {
	Objects   int32 `json:"objects"`
	Created   int32 `json:"created"`
	Updated   int32 `json:"updated"`
	Deleted   int32 `json:"deleted"`
	Unchanged int32 `json:"unchanged"`
	Ready     int32 `json:"ready"`
}

// event is what a webhook tells of a message.
func event(m *Message, t target) Event {
	c, s := m.Commit, &m.Commit.Status
	e := Event{ID: deliveryID(m), Event: eventName(m.Mark), Cluster: t.cluster, Repository: c.Spec.Repository, Branch: c.Spec.Branch,
		SHA: c.Spec.SHA, Parent: c.Spec.Parent, Phase: m.Mark.Phase, Reason: s.Reason, Message: cut(s.Message, maxText), Author: cut(c.Spec.Author, maxText),
		Title: cut(report.Title(c.Spec.Message), maxText), Times: times(c), RolledBackTo: s.RolledBackTo, URL: t.page,
		Counts:    Counts{Objects: s.Objects, Created: s.Created, Updated: s.Updated, Deleted: s.Deleted, Unchanged: s.Unchanged, Ready: s.Ready},
		Unhealthy: s.Unhealthy[:min(len(s.Unhealthy), maxFindings)]}
	for i := range s.Findings[:min(len(s.Findings), maxFindings)] {
		f := s.Findings[i]
		f.Message, f.Hint = cut(f.Message, maxText), cut(f.Hint, maxText)
		e.Findings = append(e.Findings, f)
	}
	e.FindingsOmitted = len(s.Findings) - len(e.Findings)
	return e
}

func eventName(m Mark) string {
	if m.RolledBack {
		return "commit.rolledback"
	}
	return "commit." + strings.ToLower(string(m.Phase))
}

func times(c *v1alpha1.Commit) Times {
	s := &c.Status
	var t Times
	if !c.Spec.Time.IsZero() {
		t.Committed = &c.Spec.Time.Time
	}
	if s.SeenTime != nil {
		t.Seen = &s.SeenTime.Time
	}
	if s.RenderedTime != nil {
		t.Rendered = &s.RenderedTime.Time
	}
	if s.PlannedTime != nil {
		t.Planned = &s.PlannedTime.Time
	}
	if s.AppliedTime != nil {
		t.Applied = &s.AppliedTime.Time
	}
	if s.HealthyTime != nil {
		t.Healthy = &s.HealthyTime.Time
	}
	if s.FailedTime != nil {
		t.Failed = &s.FailedTime.Time
	}
	return t
}

// deliveryID is the same whenever the same state of a commit is told of to the
// same receiver.
func deliveryID(m *Message) string {
	sum := sha256.Sum256([]byte(m.Notification + "\x00" + m.Commit.Spec.Repository + "\x00" + m.Commit.Spec.SHA + "\x00" + m.Mark.String()))
	return hex.EncodeToString(sum[:16])
}

func webhookCall(m *Message, t target) (call, error) {
	e := event(m, t)
	body, err := json.Marshal(e)
	if err != nil {
		return call{}, fmt.Errorf("encode event: %w", err)
	}
	h := http.Header{EventHeader: {e.Event}, DeliveryHeader: {e.ID}}
	if t.token != "" {
		h.Set(SignatureHeader, Sign(t.token, body))
	}
	return call{url: t.url, header: h, body: body}, nil
}

// Sign is the SignatureHeader of a body.
func Sign(token string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
