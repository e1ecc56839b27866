package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// state is what Status shows.
type state struct {
	Repository *v1alpha1.Repository `json:"repository"`
	// Head is the newest commit seen, Applied the one in the cluster; they are
	// one and the same when all is well.
	Head    *v1alpha1.Commit `json:"head,omitempty"`
	Applied *v1alpha1.Commit `json:"applied,omitempty"`
	// Refused is a push that was refused after the head was seen, so that it
	// never came to the branch.
	Refused *v1alpha1.Commit `json:"refused,omitempty"`
	// Servers of the cluster, when there are several.
	Servers []Server `json:"servers,omitempty"`
	// Others are the other repositories, where no one was asked for.
	Others []*state `json:"others,omitempty"`
}

// ErrUnwell is that a repository cannot be read, or its newest commit has failed
// or was refused. It is told of before.
var ErrUnwell = errors.New("not all is well")

// Status writes how far the cluster has come with the newest commit of the
// repository that was asked for, or of each. The error is ErrUnwell where one
// has failed.
func Status(ctx context.Context, c client.Reader, o Options, w io.Writer) error {
	s, err := readStates(ctx, c, o)
	if err != nil {
		return err
	}
	if o.JSON {
		err = writeJSON(w, s)
	} else {
		_, err = io.WriteString(w, s.text(o, time.Now()))
	}
	if err == nil && s.unwell() {
		err = ErrUnwell
	}
	return err
}

// readStates reads the state of the repository that was asked for, or of all.
func readStates(ctx context.Context, c client.Reader, o Options) (*state, error) {
	s, err := readState(ctx, c, o)
	if err != nil || o.Repository != "" {
		return s, err
	}
	all, err := client.ListAll[*v1alpha1.Repository](ctx, c, client.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list repositories: %w", err)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.Repository) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range all {
		if r.Name == s.Repository.Name {
			continue
		}
		other := Options{Repository: r.Name}
		one, err := readState(ctx, c, other)
		if apierrors.IsNotFound(err) {
			continue // it has just gone
		}
		if err != nil {
			return nil, err
		}
		s.Others = append(s.Others, one)
	}
	return s, nil
}

// unwell says whether a repository cannot be read, or has a newest commit that
// failed.
func (s *state) unwell() bool {
	bad := s.Head != nil && s.Head.Status.Phase == v1alpha1.CommitFailed
	for _, c := range s.Repository.Status.Conditions {
		bad = bad || c.Type == "Ready" && c.Status == metav1.ConditionFalse
	}
	return bad || slices.ContainsFunc(s.Others, (*state).unwell)
}

// WatchStatus writes the status, and again whenever it changes, until ctx is
// done. On a terminal the last one is written over.
func WatchStatus(ctx context.Context, c client.Reader, o Options, w io.Writer, terminal bool) error {
	watch, err := c.Watch(ctx, schema.ResourceFor[*v1alpha1.Commit](), client.WatchOptions{})
	if err != nil {
		return fmt.Errorf("watch commits: %w", err)
	}
	defer watch.Stop()
	tick := time.NewTicker(time.Second) // the repository, and ages
	defer tick.Stop()
	last, lines := "", 0
	for {
		s, err := readStates(ctx, c, o)
		if err != nil {
			return err
		}
		if text := s.text(o, time.Now()); text != last {
			if terminal && lines > 0 {
				fmt.Fprintf(w, "\x1b[%dA\x1b[J", lines)
			} else if last != "" {
				fmt.Fprintln(w)
			}
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			last, lines = text, strings.Count(text, "\n")
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-watch.Events():
			if !ok {
				return errors.New("watch commits: the server has ended the watch")
			}
		case <-tick.C:
			if !terminal {
				continue
			}
		}
	}
}

func readState(ctx context.Context, c client.Reader, o Options) (*state, error) {
	repository := o.repository()
	repo, err := client.Get[*v1alpha1.Repository](ctx, c, schema.Key{Name: repository})
	if err != nil {
		return nil, fmt.Errorf("read repository %s: %w", repository, err)
	}
	s := &state{Repository: repo, Servers: o.servers(ctx)}
	for _, part := range []struct {
		sha string
		to  **v1alpha1.Commit
	}{{repo.Status.Head, &s.Head}, {repo.Status.Applied, &s.Applied}} {
		if part.sha == "" {
			continue
		}
		*part.to, err = client.Get[*v1alpha1.Commit](ctx, c, schema.Key{Name: report.CommitName(repository, part.sha)})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read commit: %w", err)
		}
		if got := *part.to; err == nil && len(got.Status.Unhealthy) > 0 {
			told := got.DeepCopy()
			told.Status.Unhealthy = causes(ctx, c, told.Status.Unhealthy)
			*part.to = told
		}
	}
	all, err := client.ListAll[*v1alpha1.Commit](ctx, c, client.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list commits: %w", err)
	}
	for _, c := range all {
		if c.Spec.Repository == repository && c.Status.Phase == v1alpha1.CommitFailed && c.Status.Reason == "Refused" && newer(c, s.Head) && newer(c, s.Refused) {
			s.Refused = c
		}
	}
	return s, nil
}

// newer says whether a commit was seen after another; anything is after none.
func newer(c, than *v1alpha1.Commit) bool {
	return than == nil || c.Name != than.Name && seen(c).After(seen(than))
}

// text is the status for people.
func (s *state) text(o Options, now time.Time) string {
	var b strings.Builder
	spec := s.Repository.Spec
	fmt.Fprintf(&b, "repository  %s  %s, %s%s\n", s.Repository.Name, spec.URL, followed(s.Repository), folder(spec.Path))
	if spec.Suspend {
		fmt.Fprintf(&b, "            %s\n", paint(o, yellow, "suspended: what was applied stays, and nothing new is read"))
	}
	if i := slices.IndexFunc(s.Repository.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" }); i >= 0 {
		if c := s.Repository.Status.Conditions[i]; c.Status == metav1.ConditionFalse {
			fmt.Fprintf(&b, "            %s\n", paint(o, red, c.Message))
		}
	}
	switch {
	case s.Head == nil:
		b.WriteString("no commit has been seen yet\n")
	case s.Applied == nil || s.Applied.Name == s.Head.Name:
		commitText(&b, o, "commit", s.Head, now)
	default:
		commitText(&b, o, "head", s.Head, now)
		commitText(&b, o, "applied", s.Applied, now)
	}
	if s.Refused != nil && s.Head != nil {
		commitText(&b, o, "last push", s.Refused, now)
	}
	for i, d := range s.Repository.Status.Drifted[:min(len(s.Repository.Status.Drifted), maxDrifted)] {
		label := "drift"
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(&b, "%-10s  %s  %s  %s\n", label, paint(o, yellow, fmt.Sprintf("%-8s", d.Health)), d.Object, d.Message)
	}
	if n := len(s.Repository.Status.Drifted) - maxDrifted; n > 0 {
		fmt.Fprintf(&b, "            ... and %d more\n", n)
	}
	if i := slices.IndexFunc(s.Repository.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.RepositorySandboxed }); i >= 0 {
		if c := s.Repository.Status.Conditions[i]; c.Status == metav1.ConditionFalse {
			fmt.Fprintf(&b, "sandbox     %s\n", paint(o, yellow, "less than there could be: "+c.Message))
		}
	}
	for _, other := range s.Others {
		b.WriteString("\n" + other.text(o, now))
	}
	serversText(&b, o, s.Servers)
	return b.String()
}

// maxDrifted is how many objects that have drifted are shown.
const maxDrifted = 5

// followed says what of the repository is followed.
func followed(r *v1alpha1.Repository) string {
	switch s := r.Spec; {
	case s.Commit != "":
		return "commit " + short(s.Commit)
	case s.SemVer != "":
		return "tags in " + s.SemVer + at(r.Status.Tag)
	case s.Tag != "":
		return "tag " + s.Tag
	default:
		return "branch " + cmp.Or(s.Branch, "main")
	}
}

// at says which tag is followed now.
func at(tag string) string {
	if tag == "" {
		return ""
	}
	return " (now " + tag + ")"
}

func folder(path string) string {
	if path == "" || path == "." {
		return ""
	}
	return ", folder " + path
}

// commitText writes one commit with what there is to say of it.
func commitText(b *strings.Builder, o Options, label string, c *v1alpha1.Commit, now time.Time) {
	s := c.Status
	fmt.Fprintf(b, "%-10s  %s  %s  (%s)\n", label, short(c.Spec.SHA), report.Title(c.Spec.Message), author(c.Spec.Author))
	fmt.Fprintf(b, "            %s %s", paint(o, phaseColor(s.Phase), string(s.Phase)), since(c, now))
	if s.AppliedTime != nil {
		fmt.Fprintf(b, ", %d of %d objects healthy", s.Ready, s.Objects)
		fmt.Fprintf(b, "; %d created, %d updated, %d deleted", s.Created, s.Updated, s.Deleted)
	}
	b.WriteString("\n")
	note := func(color, format string, args ...any) {
		fmt.Fprintf(b, "            %s\n", paint(o, color, fmt.Sprintf(format, args...)))
	}
	if s.RolledBackTo != "" {
		note(red, "rolled back: the cluster is as %s declares it, and this commit is not tried again", short(s.RolledBackTo))
	}
	if s.Reason == report.ReasonPartly {
		note(yellow, "partly applied: %s", s.Message)
	}
	if _, what, ok := strings.Cut(s.Message, "waiting for "); ok && s.Phase == v1alpha1.CommitApplied {
		note(yellow, "waits for %s", what)
	}
	if g := s.Signature; g != nil && g.State != "Off" {
		note(signatureColor(g.State), "signature %s%s", g.State, signer(g))
	}
	for _, u := range s.Unhealthy {
		color := yellow
		if u.Health == "Degraded" {
			color = red
		}
		fmt.Fprintf(b, "              %s  %s  %s\n", paint(o, color, fmt.Sprintf("%-11s", u.Health)), u.Object, u.Message)
	}
	if n := int(s.Objects) - int(s.Ready) - len(s.Unhealthy); s.AppliedTime != nil && len(s.Unhealthy) > 0 && n > 0 {
		fmt.Fprintf(b, "              ... and %d more\n", n)
	}
	for _, f := range s.Findings {
		fmt.Fprintf(b, "              %s\n", report.FindingText(f))
	}
}

func signatureColor(state string) string {
	switch state {
	case "Verified":
		return green
	case "Bad":
		return red
	}
	return yellow
}

// signer says who signed with which key, or what is wrong.
func signer(g *v1alpha1.CommitSignature) string {
	out := ""
	if g.Signer != "" {
		out += " of " + g.Signer
	}
	if g.Key != "" {
		out += " (" + g.Key + ")"
	}
	if g.Message != "" {
		out += ": " + g.Message
	}
	return out
}

// since says how long the commit took, or has been on its way.
func since(c *v1alpha1.Commit, now time.Time) string {
	s := c.Status
	if s.SeenTime == nil {
		return ""
	}
	switch {
	case s.Phase == v1alpha1.CommitHealthy && s.HealthyTime != nil:
		return fmt.Sprintf("after %s, %s ago", span(s.HealthyTime.Sub(s.SeenTime.Time)), age(now.Sub(s.HealthyTime.Time)))
	case s.Phase == v1alpha1.CommitFailed && s.FailedTime != nil:
		return fmt.Sprintf("(%s) %s ago", s.Reason, age(now.Sub(s.FailedTime.Time)))
	case s.AppliedTime != nil:
		return fmt.Sprintf("after %s, %s ago", span(s.AppliedTime.Sub(s.SeenTime.Time)), age(now.Sub(s.AppliedTime.Time)))
	}
	return "for " + age(now.Sub(s.SeenTime.Time))
}

const (
	green  = "\x1b[32m"
	bold   = "\x1b[1m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

func paint(o Options, color, text string) string {
	if !o.Color || color == "" {
		return text
	}
	return color + text + reset
}

func phaseColor(p v1alpha1.CommitPhase) string {
	switch p {
	case v1alpha1.CommitHealthy:
		return green
	case v1alpha1.CommitFailed:
		return red
	case v1alpha1.CommitPending, v1alpha1.CommitApplied:
		return yellow
	}
	return ""
}

func short(sha string) string { return sha[:min(7, len(sha))] }

// author is the name without the mail address.
func author(s string) string {
	name, _, _ := strings.Cut(s, " <")
	return cmp.Or(name, "unknown")
}

// span is a duration that was measured.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return age(d)
}

// age is a duration as kubectl shows ages.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
