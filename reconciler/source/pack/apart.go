package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/writ-os/writ/reconciler/sandbox"
)

// Pool is that of the children which read packs: what they say of a pack is
// believed, so that they run nothing else that strangers wrote.
const Pool = "packs"

// Question is what a child is asked about a pack, whose file comes with it.
type Question struct {
	Size   int64
	Limits Limits
}

// Verdict is what it says.
type Verdict struct {
	Listing  []byte
	Refused  string // "": it may be taken in
	TooLarge bool   // that is why
}

// err is why a pack is refused.
func (v Verdict) err() error {
	switch {
	case v.Refused == "":
		return nil
	case v.TooLarge:
		return refusal(v.Refused)
	}
	return errors.New(v.Refused)
}

// refusal is ErrTooLarge with the words of another process.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// Is implements what errors.Is asks for.
func (refusal) Is(err error) bool { return errors.Is(err, ErrTooLarge) }

// maxVerdict bounds what a child says of a pack.
const maxVerdict = 64 << 20

// Judge is the function of a child that reads a pack and looks at what is in it.
func Judge(name string, look func(*Contents, *sandbox.Caller) error) sandbox.Func[Question, Verdict] {
	return sandbox.Func[Question, Verdict]{Name: name, Pool: Pool, Max: maxVerdict, With: func(q Question, c *sandbox.Caller) Verdict {
		contents, err := Read(c.File, q.Size, q.Limits)
		if err == nil {
			err = look(contents, c)
		}
		if err != nil {
			return Verdict{Refused: err.Error(), TooLarge: errors.Is(err, ErrTooLarge)}
		}
		return Verdict{Listing: contents.Listing()}
	}}
}

// Bounds of the time in which a pack is read: a slow machine unpacks some ten
// megabytes a second, and a pack grows to a multiple of itself.
const (
	readWithin = time.Minute
	perMiB     = time.Second
)

// Ask has a child of box judge a pack, and returns its listing; a nil box: this
// process does. answer answers what the function asks. The error is that of ctx,
// or why the pack is refused, in one sentence.
func (s Spooled) Ask(ctx context.Context, box *sandbox.Sandbox, judge sandbox.Func[Question, Verdict], answer func([]byte) ([]byte, error), l Limits) ([]byte, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("read pack: %w", err)
	}
	defer f.Close()
	v, err := sandbox.CallWith(ctx, box, judge, Question{s.Size, l}, sandbox.Help{File: f, Answer: answer}, readWithin+time.Duration(s.Size>>20)*perMiB)
	if err != nil {
		return nil, explain(err)
	}
	return v.Listing, v.err()
}

// explain says what it means that no verdict has come. How the child has died is a
// part of the sentence: nobody asks what it wraps.
func explain(err error) error {
	var death *sandbox.Death
	if !errors.As(err, &death) {
		return fmt.Errorf("read pack: %w", err)
	}
	switch death.Cause {
	case sandbox.Memory, sandbox.Late:
		return fmt.Errorf("%w: the process that reads the pack %s: send the history in parts, older commits first", ErrTooLarge, death.Error())
	}
	return fmt.Errorf("read pack: the process that reads it has ended: %s; nothing was changed: send it again", death.Error())
}
