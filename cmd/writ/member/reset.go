package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/controlplane/store"
)

// Reset puts one server back when most are lost for good: it becomes the only one
// of its cluster, with what it has. Whoever calls it holds the lock of the data
// directory.
type Reset struct {
	DataDir string
	Ask     Ask
	// Confirm is asked before anything changes; an error ends it.
	Confirm func(Loss) error
	Now     time.Time
	Log     *slog.Logger
}

// Loss is what a reset takes away.
type Loss struct {
	Name string `json:"name"` // of the server that stays
	// Dropped are those that are servers of the cluster no more; none when the
	// server is the only one already.
	Dropped []Lost `json:"dropped"`
	// Before is the folder with the store as it was; "" until it is done.
	Before string `json:"before,omitempty"`
}

// Lost is a server that is dropped.
type Lost struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Answers says that it runs, and has lost most of the others as well.
	Answers bool `json:"answers"`

	inStep bool
}

// Run resets, if there is anything to reset. It is done whole or not at all, and
// may be begun again.
func (r *Reset) Run(ctx context.Context) (Loss, error) {
	state, err := ReadState(r.DataDir)
	if err != nil {
		return Loss{}, fmt.Errorf("reset: %w", err)
	}
	dir := filepath.Join(r.DataDir, "store")
	all, err := store.ReadMembers(dir)
	if errors.Is(err, store.ErrNoData) {
		return Loss{}, fmt.Errorf("reset: there is no store of a server in %s: name the right one with --data-dir; without its data a server joins anew", r.DataDir)
	}
	if err != nil {
		return Loss{}, fmt.Errorf("reset: %w", err)
	}
	if state == nil || len(all) == 1 {
		return lossOf(state, nil), nil
	}
	loss := lossOf(state, askOthers(ctx, state.Name, all, r.Ask))
	if err := loss.Refuse(); err != nil {
		return loss, err
	}
	if err := r.Confirm(loss); err != nil {
		return loss, err
	}
	loss.Before, err = store.Reset(ctx, dir, state.Name, r.Now, r.Log)
	return loss, err
}

func lossOf(state *State, dropped []Lost) Loss {
	l := Loss{Dropped: dropped}
	if state != nil {
		l.Name = state.Name
	}
	if l.Dropped == nil {
		l.Dropped = []Lost{}
	}
	return l
}

// Ask is how another member is asked, by its URL, whether it is in step with most
// of them. An error says that it does not answer.
type Ask func(ctx context.Context, url string) (inStep bool, err error)

// Losses are what a reset of one server takes away, as far as it knows.
func Losses(ctx context.Context, self string, all []store.Member, ask Ask) Loss {
	return lossOf(&State{Name: self}, askOthers(ctx, self, all, ask))
}

// askOthers asks all of them at once.
func askOthers(ctx context.Context, self string, all []store.Member, ask Ask) []Lost {
	var out []Lost
	for _, m := range all {
		if m.Name != self {
			out = append(out, Lost{Name: m.Name, URL: m.URL})
		}
	}
	var asked sync.WaitGroup
	for i := range out {
		l := &out[i]
		asked.Go(func() {
			inStep, err := ask(ctx, l.URL)
			l.Answers, l.inStep = err == nil, inStep
		})
	}
	asked.Wait()
	return out
}

// Refuse says why the servers are not lost: one that is in step has most of them
// behind it, and a reset would make a second cluster beside theirs.
func (l *Loss) Refuse() error {
	i := slices.IndexFunc(l.Dropped, func(o Lost) bool { return o.inStep })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("reset: most of the servers are there, as %s says: start this one, and it goes on with them; to take it out, 'writ member remove %s' there", l.Dropped[i].Name, l.Name)
}

// Text says what a reset does, for people.
func (l *Loss) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s becomes the only server of its cluster, with what it has stored.\n\n", l.Name)
	for _, d := range l.Dropped {
		how := "does not answer"
		if d.Answers {
			how = "runs, without most of the others: it ends when it hears of this"
		}
		name := d.Name
		if name == "" {
			name = "(not started)"
		}
		fmt.Fprintf(&b, "  dropped  %s  %s  %s\n", name, d.URL, how)
	}
	b.WriteString(`  lost     what only those had stored: the last writes and pushes that had not come here
  kept     the store as it is now, beside the new one

They join again with empty data directories. Do not start them with their old data:
most of them together would be the old cluster again.
`)
	return b.String()
}

// orderFile says that a server is to be reset before it starts.
const orderFile = "reset"

// Order has a server reset itself when it starts next.
func Order(dataDir string) error {
	return durable.WriteFile(filepath.Join(dataDir, orderFile), nil, 0o600)
}

// Ordered does what Order says, if it was called, and forgets it then: one that
// cannot be done keeps no server from starting.
func (r *Reset) Ordered(ctx context.Context) error {
	file := filepath.Join(r.DataDir, orderFile)
	switch _, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for the order of a reset: %w", err)
	}
	loss, err := r.Run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.Log.Error("the servers are not reset, as was ordered", "err", err)
	case loss.Before != "":
		r.Log.Warn("this server is the only one of its cluster now", "name", loss.Name, "dropped", len(loss.Dropped), "before", loss.Before)
	}
	return durable.Remove(file)
}
