package render

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// renderUnitThere renders the unit of a job, in a child.
var renderUnitThere = sandbox.Func[*job, *answer]{Name: "render", Do: func(j *job, _ func(int)) *answer { return j.run() }}

// Functions are what a child must know that renders.
func Functions() []sandbox.Function { return []sandbox.Function{renderUnitThere} }

// renderThere renders a unit in a child. The error is that of a file that
// cannot be read, of a child that cannot be started, or of ctx.
func renderThere(ctx context.Context, s *sandbox.Sandbox, out *Rendered, data []byte) (*Rendered, error) {
	j, opened, err := newJob(out.unit, data)
	if err != nil {
		return nil, err
	}
	a, err := sandbox.Call(ctx, s, renderUnitThere, j, out.unit.limit())
	if err == nil {
		var done *Rendered
		if done, err = a.replay(out, opened); err == nil || a.Error != "" {
			return done, err
		}
	}
	var death *sandbox.Death
	if errors.As(err, &death) || errors.Is(err, errWire) {
		return died(out, err), nil
	}
	return nil, err
}

// died is the finding of a unit that no child has survived.
func died(out *Rendered, err error) *Rendered {
	u := out.unit
	f := Died(u.what(), err)
	f.File = u.Path
	out = out.again()
	out.find(f)
	return out
}

// Died says that something of a commit was not evaluated, by the error of the
// sandbox. The finding has no place yet.
func Died(what string, err error) v1alpha1.Finding {
	f := v1alpha1.Finding{Rule: "TooLarge", Message: fmt.Sprintf("the %s broke its evaluator down: %s", what, strings.ToValidUTF8(err.Error(), "?")), Hint: "make it smaller, or split it"}
	var death *sandbox.Death
	if !errors.As(err, &death) {
		return f
	}
	switch death.Cause {
	case sandbox.Memory:
		f.Message = fmt.Sprintf("the %s %v", what, death)
	case sandbox.Late:
		f.Rule, f.Message = "TooSlow", fmt.Sprintf("the %s is not evaluated after %s", what, death.Limit)
	}
	return f
}
