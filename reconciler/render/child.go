package render

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// childVariable says to this binary that it is a child of the renderer.
const childVariable = "WRIT_RENDER_CHILD"

// childMemory is how many bytes of data a child may have. The collector is told
// to keep below a bound before that, else garbage would count as much as what
// is needed.
const (
	childMemory = 1 << 30
	childGoal   = childMemory / 8 * 7
)

// ServeChild serves as a child where this process is one, until its input
// ends; false: it is none. A main calls it before anything else.
func ServeChild() bool {
	if os.Getenv(childVariable) == "" {
		return false
	}
	limit := unix.Rlimit{Cur: childMemory, Max: childMemory}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		fmt.Fprintln(os.Stderr, "bound memory:", err)
		os.Exit(1)
	}
	debug.SetMemoryLimit(childGoal)
	serve(os.Stdin, os.Stdout)
	return true
}

// serve answers one job after the other. It ends with its input also in the
// middle of a job, which may have no end: else the child would outlive a
// server that was killed.
func serve(r io.Reader, w io.Writer) {
	jobs := make(chan *job)
	go func() {
		defer close(jobs)
		in := gob.NewDecoder(r)
		for {
			j := &job{}
			if in.Decode(j) != nil {
				os.Exit(0)
			}
			jobs <- j
		}
	}()
	out := gob.NewEncoder(w)
	for j := range jobs {
		if out.Encode(j.run()) != nil {
			return
		}
	}
}
