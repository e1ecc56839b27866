package fake

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Programs is an Exec that knows some of the commands of the tests' program
// (runtime/conformance/prog): cat, exit, flood, size. Others end with 64.
func Programs(_ string, e runtime.ExecSpec) (int, error) {
	out, errs := writer(e.Stdout), writer(e.Stderr)
	if len(e.Command) < 2 {
		return 64, nil
	}
	args := e.Command[2:]
	switch e.Command[1] {
	case "cat":
		if e.Stdin != nil {
			_, _ = io.Copy(out, e.Stdin) // the client has gone
		}
		return 0, nil
	case "exit":
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return 64, nil
		}
		fmt.Fprintln(errs, strings.Join(args[1:], " "))
		return code, nil
	case "flood":
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return 64, nil
		}
		_, _ = io.CopyN(out, zeros{}, n) // the client has gone
		return 0, nil
	case "size":
		for size := range e.Resize {
			fmt.Fprintf(out, "%d %d\n", size[0], size[1])
		}
		return 129, nil
	}
	return 64, nil
}

func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// zeros is an endless file of the digit zero.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}
