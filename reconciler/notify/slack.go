package notify

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// slackMessage is the body that Slack's incoming webhooks take. Attachments,
// not blocks: Mattermost, Rocket.Chat and Discord (at /slack) take those too.
type slackMessage struct {
	Text        string            `json:"text"`
	Attachments []slackAttachment `json:"attachments"`
}

type slackAttachment struct {
	Fallback  string       `json:"fallback"`
	Color     string       `json:"color"`
	Title     string       `json:"title"`
	TitleLink string       `json:"title_link,omitempty"`
	Text      string       `json:"text,omitempty"`
	Fields    []slackField `json:"fields,omitempty"`
	Footer    string       `json:"footer,omitempty"`
	Ts        int64        `json:"ts,omitempty"`
	MrkdwnIn  []string     `json:"mrkdwn_in,omitempty"`
}

type slackField struct {
	Title string `json:"title"`
	Value string `json:"value"`
	Short bool   `json:"short"`
}

// slackLines is how many findings or unhealthy objects a chat is shown.
const slackLines = 5

func slackCall(m *Message, t target) (call, error) {
	c := m.Commit
	head := fmt.Sprintf("%s %s: %s", where(t.cluster, c.Spec.Repository), c.Spec.SHA[:min(7, len(c.Spec.SHA))], headline(m.Mark))
	title := cut(report.Title(c.Spec.Message), 200)
	if title == "" {
		title = c.Spec.SHA
	}
	a := slackAttachment{Fallback: plain(head), Color: color(m.Mark.Phase), Title: plain(title), TitleLink: t.page, Text: details(c),
		Footer: plain("writ"), Ts: m.Mark.Seen / 1e6, MrkdwnIn: []string{"text"}}
	if c.Spec.Author != "" {
		a.Fields = append(a.Fields, slackField{"Author", plain(cut(c.Spec.Author, 200)), true})
	}
	if s := c.Status; s.Objects > 0 {
		a.Fields = append(a.Fields, slackField{"Objects", fmt.Sprintf("%d created, %d updated, %d deleted; %d of %d healthy", s.Created, s.Updated, s.Deleted, s.Ready, s.Objects), true})
	}
	body, err := json.Marshal(slackMessage{Text: plain(head), Attachments: []slackAttachment{a}})
	if err != nil {
		return call{}, fmt.Errorf("encode message: %w", err)
	}
	return call{url: t.url, body: body}, nil
}

// where names the cluster and the repository, as short as it is clear.
func where(cluster, repository string) string {
	switch {
	case cluster == "":
		return repository
	case repository == "cluster" || repository == cluster:
		return cluster
	}
	return cluster + "/" + repository
}

func headline(m Mark) string {
	if m.RolledBack {
		return "failed and rolled back"
	}
	return strings.ToLower(string(m.Phase))
}

func color(p v1alpha1.CommitPhase) string {
	switch p {
	case v1alpha1.CommitHealthy:
		return "#2eb67d"
	case v1alpha1.CommitFailed:
		return "#e01e5a"
	case v1alpha1.CommitApplied:
		return "#36c5f0"
	}
	return "#8d8d8d"
}

// details are the message of the status and what is wrong, one a line.
func details(c *v1alpha1.Commit) string {
	lines := []string{plain(cut(c.Status.Message, maxText))}
	more := func(n int) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("... and %d more", n))
		}
	}
	f, u := c.Status.Findings, c.Status.Unhealthy
	for i := range f[:min(len(f), slackLines)] {
		lines = append(lines, "• "+plain(cut(report.FindingText(f[i]), 300)))
	}
	more(len(f) - slackLines)
	for i := range u[:min(len(u), slackLines)] {
		lines = append(lines, "• "+plain(cut(fmt.Sprintf("%s: %s %s", u[i].Object, u[i].Health, u[i].Message), 300)))
	}
	more(len(u) - slackLines)
	return strings.Join(lines, "\n")
}

// shout are the words by which a chat calls all its people. A commit's author
// does not get to say them.
var shout = regexp.MustCompile(`@(channel|here|all|everyone)\b`)

// plain is a text without meaning to a chat.
func plain(s string) string {
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	return shout.ReplaceAllString(s, "@\u200b$1")
}
