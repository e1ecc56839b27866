package page

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// content is what a page shows.
type content struct {
	Title   string
	Section string // the entry of the navigation
	Live    string // the topics of which a change concerns the page
	Viewer  string
	Version string
	Body    any
}

// The states that the style sheet knows: each has a colour and a shape.
const (
	stateOK   = "ok"
	stateBusy = "busy"
	stateBad  = "bad"
	stateWarn = "warn"
	stateIdle = "idle"
	stateWait = "wait"
)

// healthStates are the healths in the order in which they matter.
var healthStates = []health.Status{health.Degraded, health.Missing, health.Progressing, health.Healthy}

func stateOf(s health.Status) string {
	switch s {
	case health.Healthy:
		return stateOK
	case health.Progressing:
		return stateBusy
	case health.Degraded:
		return stateBad
	case health.Missing:
		return stateWarn
	}
	return stateIdle
}

func phaseState(p v1alpha1.CommitPhase) string {
	switch p {
	case v1alpha1.CommitHealthy:
		return stateOK
	case v1alpha1.CommitApplied:
		return stateBusy
	case v1alpha1.CommitFailed:
		return stateBad
	case v1alpha1.CommitSuperseded:
		return stateIdle
	}
	return stateWait
}

// moment is a time as people read it.
type moment struct {
	ISO  string // for machines
	Full string // 2026-11-22 05:32:38 UTC
	Ago  string // 5m
}

func momentOf(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	t = t.UTC()
	ago := duration.HumanDuration(max(now.Sub(t), 0)) // a clock may be ahead
	return moment{ISO: t.Format(time.RFC3339), Full: t.Format("2006-01-02 15:04:05 MST"), Ago: ago}
}

// took is a duration in three digits or so: 12ms, 5.9s, 2m10s.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		s := d.Round(time.Second).String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		return s
	}
	return duration.HumanDuration(d)
}

// short is the first digits of a commit.
func short(sha string) string { return sha[:min(7, len(sha))] }

// person is an author: "Ada Lovelace <ada@example.com>".
type person struct {
	Name, Mail string
	Initials   string
	Hue        int // 0..7, the same for the same person
}

func personOf(author string) person {
	name, rest, _ := strings.Cut(author, "<")
	p := person{Name: strings.TrimSpace(name), Mail: strings.TrimSuffix(strings.TrimSpace(rest), ">")}
	p.Name = cmp.Or(p.Name, p.Mail, "unknown")
	words := strings.FieldsFunc(p.Name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range words {
		if i == 0 || i == len(words)-1 {
			r, _ := utf8.DecodeRuneInString(w)
			p.Initials += strings.ToUpper(string(r))
		}
	}
	p.Initials = cmp.Or(p.Initials, "?")
	h := fnv.New32a()
	_, _ = h.Write([]byte(author)) // never fails
	p.Hue = int(h.Sum32() % 8)
	return p
}

// title is the first line of a commit message, rest what follows.
func title(message string) (first, rest string) {
	first, rest, _ = strings.Cut(strings.TrimSpace(message), "\n")
	return cmp.Or(first, "(no message)"), strings.TrimSpace(rest)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "y") {
		what = strings.TrimSuffix(what, "y") + "ie"
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// middle shortens a name from its middle: what tells pods apart is at the end.
func middle(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	end := (n - 1) / 2
	return string(r[:n-1-end]) + "…" + string(r[len(r)-end:])
}

// cut bounds a text that others wrote.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// word says something in place of a page.
type word struct {
	Heading, Text string
	Commands      []string
}

func signIn() content {
	return content{Title: "Sign in", Body: word{
		Heading:  "Sign in to see this cluster",
		Text:     "The page shows what you may read. Sign in with a token of the cluster as the password (the user name is free), with a client certificate, or through kubectl, which signs in for you:",
		Commands: []string{"kubectl proxy", "http://127.0.0.1:8001" + Prefix},
	}}
}

func notFound(viewer string) content {
	return content{Title: "Not found", Viewer: viewer, Body: word{
		Heading: "There is nothing here",
		Text:    "It does not exist, it exists no more, or " + viewer + " may not read it.",
	}}
}
