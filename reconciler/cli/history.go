package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// History writes the commits of a repository, the newest first.
func History(ctx context.Context, c client.Reader, o Options, w io.Writer) error {
	all, err := client.ListAll[*v1alpha1.Commit](ctx, c, client.ListOptions{})
	if err != nil {
		return fmt.Errorf("list commits: %w", err)
	}
	all = slices.DeleteFunc(all, func(c *v1alpha1.Commit) bool { return c.Spec.Repository != o.repository() })
	slices.SortStableFunc(all, func(a, b *v1alpha1.Commit) int { return seen(b).Compare(seen(a)) })
	if o.JSON {
		return writeJSON(w, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no commit has been seen yet")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "COMMIT\tAGE\tPHASE\tAPPLIED IN\tHEALTHY IN\tCHANGES\tAUTHOR\tMESSAGE")
	now := time.Now()
	for _, c := range all {
		s := c.Status
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", short(c.Spec.SHA), age(now.Sub(seen(c))), phase(s),
			took(s.SeenTime, s.AppliedTime), took(s.SeenTime, s.HealthyTime), changes(s), author(c.Spec.Author), report.Title(c.Spec.Message))
	}
	return t.Flush()
}

func seen(c *v1alpha1.Commit) time.Time {
	if c.Status.SeenTime != nil {
		return c.Status.SeenTime.Time
	}
	return c.CreationTimestamp.Time
}

func phase(s v1alpha1.CommitStatus) string {
	if s.Phase == v1alpha1.CommitFailed {
		return fmt.Sprintf("%s (%s)", s.Phase, s.Reason)
	}
	return string(s.Phase)
}

func took(from, to *metav1.MicroTime) string {
	if from == nil || to == nil {
		return "-"
	}
	return span(to.Sub(from.Time))
}

func changes(s v1alpha1.CommitStatus) string {
	if s.AppliedTime == nil {
		return "-"
	}
	return fmt.Sprintf("+%d ~%d -%d", s.Created, s.Updated, s.Deleted)
}

// origin is where an object comes from.
type origin struct {
	Object     string `json:"object"`
	Repository string `json:"repository"`
	File       string `json:"file"`
	Line       int    `json:"line"`
	Commit     string `json:"commit"`
	Author     string `json:"author"`
	Time       string `json:"time"`
	Message    string `json:"message,omitempty"`
}

// Why writes which file and line of which commit declare an object: "deploy/web"
// or "Deployment/web". Namespace may be "" for all.
func Why(ctx context.Context, c client.Reader, o Options, namespace, name string, w io.Writer) error {
	kind, name, ok := strings.Cut(name, "/")
	if !ok {
		return fmt.Errorf("%q: write KIND/NAME, as in deploy/web", kind)
	}
	r := resource(kind)
	if r == nil {
		return fmt.Errorf("there is no kind %q", kind)
	}
	inventories, err := client.ListAll[*v1alpha1.Inventory](ctx, c, client.ListOptions{})
	if err != nil {
		return fmt.Errorf("list inventories: %w", err)
	}
	var found []origin
	for _, inv := range inventories {
		for i := range inv.Spec.Objects {
			obj := &inv.Spec.Objects[i]
			if obj.Kind == r.Kind && obj.Group == r.Group && obj.Name == name && (namespace == "" || !r.Namespaced || obj.Namespace == namespace) {
				found = append(found, originOf(ctx, c, inv, obj))
			}
		}
	}
	if o.JSON {
		return writeJSON(w, append([]origin{}, found...))
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(w, "%s/%s is not declared in Git\n", r.Kind, name)
		return err
	}
	for _, f := range found {
		fmt.Fprintf(w, "%s\n  declared in  %s:%d  (repository %s)\n  since        %s  %s  by %s, %s\n",
			f.Object, f.File, f.Line, f.Repository, short(f.Commit), f.Message, author(f.Author), f.Time)
	}
	return nil
}

func originOf(ctx context.Context, c client.Reader, inv *v1alpha1.Inventory, obj *v1alpha1.InventoryObject) origin {
	out := origin{Object: obj.Kind + "/" + schema.Key{Namespace: obj.Namespace, Name: obj.Name}.String(), Repository: inv.Spec.Repository,
		File: inv.Spec.File, Line: obj.Line, Commit: inv.Spec.Commit, Author: inv.Spec.Author, Time: inv.Spec.Time.UTC().Format("2006-01-02 15:04 MST")}
	if obj.File != "" {
		out.File = obj.File
	}
	// The message is kept for the newest commits only.
	if commit, err := client.Get[*v1alpha1.Commit](ctx, c, schema.Key{Name: report.CommitName(inv.Spec.Repository, inv.Spec.Commit)}); err == nil {
		out.Message = report.Title(commit.Spec.Message)
	}
	return out
}

// resource finds a kind by any of the names that kubectl knows.
func resource(name string) *schema.Resource {
	lower := strings.ToLower(name)
	for _, r := range schema.Resources {
		if lower == strings.ToLower(r.Kind) || lower == r.Plural || lower == r.Singular || slices.Contains(r.ShortNames, lower) || lower == r.String() {
			return r
		}
	}
	return nil
}
