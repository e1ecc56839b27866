package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Completer returns what a word on the command line may become, each with a
// description after a tab. It has no errors: a shell cannot show any.
type Completer func(ctx context.Context, c client.Reader, o Options, begun string) []string

// maxCompletions bounds what a shell is given.
const maxCompletions = 500

// CompleteCommits offers the commits that the cluster remembers.
func CompleteCommits(ctx context.Context, c client.Reader, o Options, begun string) []string {
	all, err := commits(ctx, c, o.repository())
	if err != nil {
		return nil
	}
	var out []string
	for _, c := range all {
		if strings.HasPrefix(c.Spec.SHA, begun) {
			out = append(out, short(c.Spec.SHA)+"\t"+string(c.Status.Phase)+": "+report.Title(c.Spec.Message))
		}
	}
	return out
}

// CompleteRepositories offers the names of repositories.
func CompleteRepositories(ctx context.Context, c client.Reader, _ Options, begun string) []string {
	all, err := client.ListAll[*v1alpha1.Repository](ctx, c, client.ListOptions{})
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range all {
		if strings.HasPrefix(r.Name, begun) {
			out = append(out, r.Name+"\t"+r.Spec.URL)
		}
	}
	return out
}

// CompleteObjects offers the objects that Git declares, as kind/name in small
// letters.
func CompleteObjects(ctx context.Context, c client.Reader, _ Options, begun string) []string {
	all, err := client.ListAll[*v1alpha1.Inventory](ctx, c, client.ListOptions{})
	if err != nil {
		return nil
	}
	var out []string
	for _, inv := range all {
		for i := range inv.Spec.Objects {
			o := &inv.Spec.Objects[i]
			name := strings.ToLower(o.Kind) + "/" + o.Name
			if strings.HasPrefix(name, strings.ToLower(begun)) {
				out = append(out, name+"\t"+place(inv.Spec.File, o.Line))
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxCompletions)]
}
