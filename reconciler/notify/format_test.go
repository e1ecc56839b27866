package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func message(c *v1alpha1.Commit) *Message {
	return &Message{Notification: "n", Commit: c, Mark: MarkOf(c)}
}

func refused(findings int) *v1alpha1.Commit {
	c := commit(1, failed)
	c.Status.Reason, c.Status.Message, c.Status.FailedTime = "Refused", "findings; the cluster is as it was before", at(61)
	for i := range findings {
		c.Status.Findings = append(c.Status.Findings, v1alpha1.Finding{File: "apps/web.yaml", Line: 12 + i, Column: 3, Rule: "UnknownField",
			Message: "unknown field \"replica\"" + strings.Repeat("!", 3*i), Hint: "did you mean \"replicas\"?"})
	}
	return c
}

func TestWebhookCall(t *testing.T) {
	c := refused(30)
	c.Status.Findings[0].Message = strings.Repeat("ä", 5000)
	got, err := newCall(message(c), "webhook", target{url: "https://hooks.example.org/x", token: "s3cret", cluster: "prod", page: "https://writ.example.org/c"})
	if err != nil {
		t.Fatal(err)
	}
	if want := Sign("s3cret", got.body); got.header.Get(SignatureHeader) != want || !strings.HasPrefix(want, "sha256=") || len(want) != 7+64 {
		t.Errorf("signature %q, want %q", got.header.Get(SignatureHeader), want)
	}
	var e map[string]any
	if err := json.Unmarshal(got.body, &e); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{"event": "commit.failed", "cluster": "prod", "repository": "shop", "sha": c.Spec.SHA, "phase": "Failed", "reason": "Refused",
		"title": "Raise the replicas", "author": "Ann <ann@example.org>", "url": "https://writ.example.org/c", "findingsOmitted": 10.0, "branch": "main"} {
		if e[field] != want {
			t.Errorf("%s is %v, want %v", field, e[field], want)
		}
	}
	findings := e["findings"].([]any)
	first := findings[0].(map[string]any)
	if len(findings) != maxFindings || first["line"] != 12.0 || len(first["message"].(string)) > maxText || !utf8.ValidString(first["message"].(string)) {
		t.Errorf("findings: %d, first %v", len(findings), first)
	}
	if times := e["times"].(map[string]any); times["seen"] != "1999-05-01T12:01:00Z" || times["failed"] != "1999-05-01T12:01:01Z" || times["healthy"] != nil {
		t.Errorf("times: %v", times)
	}
	if e["id"] != got.header.Get(DeliveryHeader) || e["id"] == "" {
		t.Errorf("id %v, header %v", e["id"], got.header)
	}
	again, _ := newCall(message(c), "webhook", target{url: "https://hooks.example.org/x"})
	if again.header.Get(DeliveryHeader) != got.header.Get(DeliveryHeader) || again.header.Get(SignatureHeader) != "" {
		t.Errorf("again: %v", again.header)
	}
}

func TestSlackCall(t *testing.T) {
	c := refused(7)
	c.Spec.Message = "@channel <!here> see <https://evil.example.org|this> & that"
	got, err := newCall(message(c), "slack", target{url: "https://hooks.example.org/x", cluster: "prod", page: "https://writ.example.org/c"})
	if err != nil {
		t.Fatal(err)
	}
	var m slackMessage
	if err := json.Unmarshal(got.body, &m); err != nil {
		t.Fatal(err)
	}
	a := m.Attachments[0]
	if m.Text != "prod/shop b023456: failed" || a.Color != "#e01e5a" || a.TitleLink != "https://writ.example.org/c" {
		t.Errorf("%+v", m)
	}
	if strings.Contains(a.Title, "<") || strings.Contains(a.Title, "@channel") || !strings.Contains(a.Title, "&amp; that") {
		t.Errorf("title %q", a.Title)
	}
	if !strings.Contains(a.Text, "• apps/web.yaml:12:3: unknown field") || !strings.HasSuffix(a.Text, "... and 2 more") {
		t.Errorf("text %q", a.Text)
	}
	colors := map[string]bool{}
	for _, p := range []v1alpha1.CommitPhase{pending, applied, healthy, failed} {
		colors[color(p)] = true
	}
	if len(colors) != 4 {
		t.Errorf("colours: %v", colors)
	}
}

func TestStatusURL(t *testing.T) {
	for _, c := range []struct{ kind, address, want string }{
		{"github", "https://github.com/acme/infra", "https://api.github.com/repos/acme/infra/statuses/SHA"},
		{"github", "https://github.com/acme/infra.git", "https://api.github.com/repos/acme/infra/statuses/SHA"},
		{"github", "https://api.github.com/repos/acme/infra", "https://api.github.com/repos/acme/infra/statuses/SHA"},
		{"github", "https://ghe.example.org/acme/infra/", "https://ghe.example.org/api/v3/repos/acme/infra/statuses/SHA"},
		{"github", "https://ghe.example.org/api/v3/repos/acme/infra", "https://ghe.example.org/api/v3/repos/acme/infra/statuses/SHA"},
		{"github", "http://127.0.0.1:1/repos/acme/infra", "http://127.0.0.1:1/repos/acme/infra/statuses/SHA"},
		{"gitlab", "https://gitlab.com/acme/team/infra.git", "https://gitlab.com/api/v4/projects/acme%2Fteam%2Finfra/statuses/SHA"},
		{"gitlab", "https://git.example.org/sub/api/v4/projects/42", "https://git.example.org/sub/api/v4/projects/42/statuses/SHA"},
		{"gitlab", "https://gitlab.com/api/v4/projects/acme%2Finfra", "https://gitlab.com/api/v4/projects/acme%2Finfra/statuses/SHA"},
		{"gitea", "https://codeberg.org/acme/infra", "https://codeberg.org/api/v1/repos/acme/infra/statuses/SHA"},
		{"gitea", "https://git.example.org/gitea/api/v1/repos/acme/infra", "https://git.example.org/gitea/api/v1/repos/acme/infra/statuses/SHA"},
	} {
		if got, err := statusURL(c.kind, c.address, "SHA"); err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v; want %q", c.kind, c.address, got, err, c.want)
		}
	}
	for _, c := range []struct{ kind, address string }{{"github", "https://github.com/"}, {"github", "https://github.com/acme"}, {"gitea", "https://a.example.org/x/y/z"},
		{"gitlab", "https://gitlab.com/acme"}, {"gitlab", "https://gitlab.com"}} {
		if got, err := statusURL(c.kind, c.address, "SHA"); err == nil || !strings.Contains(err.Error(), "OWNER/REPOSITORY") {
			t.Errorf("%s %s: %q, %v", c.kind, c.address, got, err)
		}
	}
}

func TestForgeCall(t *testing.T) {
	states := map[string][]string{ // pending, applied, healthy, failed, superseded
		"github": {"pending", "pending", "success", "failure", "error"},
		"gitea":  {"pending", "pending", "success", "failure", "error"},
		"gitlab": {"pending", "running", "success", "failed", "canceled"},
	}
	for kind, want := range states {
		for i, p := range []v1alpha1.CommitPhase{pending, applied, healthy, failed, superseded} {
			got, err := newCall(message(commit(1, p)), kind, target{url: "https://git.example.org/a/b", token: "t0ken", cluster: "prod", page: "https://p"})
			if err != nil {
				t.Fatal(err)
			}
			var s forgeStatus
			if err := json.Unmarshal(got.body, &s); err != nil {
				t.Fatal(err)
			}
			if s.State != want[i] || s.Context != "writ/prod/shop" || s.TargetURL != "https://p" || s.Description == "" {
				t.Errorf("%s %s: %+v", kind, p, s)
			}
			if !strings.Contains(fmt.Sprint(got.header), "t0ken") {
				t.Errorf("%s: header %v", kind, got.header)
			}
		}
		if _, err := newCall(message(commit(1, healthy)), kind, target{url: "https://git.example.org/a/b"}); err == nil {
			t.Errorf("%s without token is no error", kind)
		}
	}
}

func TestDescribe(t *testing.T) {
	long := refused(3)
	long.Status.Findings[0].Message = strings.Repeat("ä", 300)
	lines := commit(1, applied)
	lines.Status.Message = "3 objects\nnot\thealthy yet"
	for name, c := range map[string]struct {
		commit *v1alpha1.Commit
		prefix string
		suffix string
	}{
		"finding":  {refused(1), "apps/web.yaml:12:3: unknown field", "(did you mean \"replicas\"?)"},
		"findings": {refused(3), "apps/web.yaml:12:3: unknown field", "(did you mean \"replicas\"?) (+2)"},
		"long":     {long, "apps/web.yaml:12:3: ää", "ä… (+2)"},
		"lines":    {lines, "3 objects not healthy yet", "yet"},
		"nothing":  {commit(1, superseded), "superseded", ""},
	} {
		got := describe(message(c.commit))
		if !strings.HasPrefix(got, c.prefix) || !strings.HasSuffix(got, c.suffix) || utf8.RuneCountInString(got) > maxDescription {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWhere(t *testing.T) {
	for _, c := range [][3]string{{"", "shop", "shop"}, {"prod", "cluster", "prod"}, {"prod", "prod", "prod"}, {"prod", "shop", "prod/shop"}} {
		if got := where(c[0], c[1]); got != c[2] {
			t.Errorf("where(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestCut(t *testing.T) {
	for n := 3; n < 40; n++ {
		for _, s := range []string{"short", strings.Repeat("ä€𝄞", 10)} {
			if got := cut(s, n); len(got) > n || !utf8.ValidString(got) || len(s) <= n && got != s {
				t.Errorf("cut(%q, %d) = %q", s, n, got)
			}
		}
	}
}
