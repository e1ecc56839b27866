package auth

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/writ-os/writ/controlplane/auth/webhook"
)

// Follow returns the Take of a reload.Config that keeps an authorizer in step
// with File. As upstream, webhooks may come, go and change; the other members
// that the server has started with (chain, by Open) have to stay, and those
// that need something of the start cannot be added.
func (c Authorization) Follow(a *Authorizer, chain []Member, log *slog.Logger) func(context.Context, [][]byte) error {
	return func(_ context.Context, data [][]byte) error {
		next, err := c.parse(data[0], chain, log)
		if err != nil {
			return err
		}
		a.SetChain(next)
		return nil
	}
}

// again returns the member of a mode: that of the start, or a new one.
func (c Authorization) again(mode string, first []Member, hook webhook.AuthorizerConfig, log *slog.Logger) (Member, error) {
	if i := slices.IndexFunc(first, func(m Member) bool { return m.Mode == mode }); i >= 0 && mode != ModeWebhook {
		return first[i], nil
	}
	if len(first) > 0 && (mode == ModeNode || mode == ModeABAC || mode == ModeRBAC) {
		return Member{}, fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", mode)
	}
	return c.member(mode, hook, log)
}

// missing finds members of the start that are not there any more.
func missing(first, now []Member) error {
	var gone []string
	for _, m := range first {
		if m.Mode != ModeWebhook && !slices.ContainsFunc(now, func(n Member) bool { return n.Mode == m.Mode }) {
			gone = append(gone, m.Mode)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.Sort(gone)
	return fmt.Errorf("missing required types: %v", gone)
}
