package sandbox

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Func is a pure function that a child runs. at notes how far it has come, by
// a number of its own; should the child die, the caller is told. The zero Max
// is MaxAnswer.
type Func[Q, A any] struct {
	Name string
	Do   func(q Q, at func(int)) A
	// With is Do for a function that CallWith calls: it has a file, and may ask.
	With func(q Q, c *Caller) A
	Max  int64 // bytes of an answer
	// Pool names the functions that may share a child with this one. What vouches
	// for something is not run where another stranger's program has run.
	Pool string
}

// Caller is who has asked, as the function sees them.
type Caller struct {
	File io.ReaderAt // that came with the question; it cannot be written
	at   func(int)
	ask  func([]byte) ([]byte, error)
}

// At notes how far the function has come.
func (c *Caller) At(n int) { c.at(n) }

// Ask asks the caller something back, and waits for the answer. The error is the
// caller's.
func (c *Caller) Ask(question []byte) ([]byte, error) { return c.ask(question) }

// Function is a Func of any types.
type Function interface {
	name() string
	file() bool
	answer(question []byte, c *Caller) ([]byte, error)
}

func (f Func[Q, A]) name() string { return f.Name }
func (f Func[Q, A]) file() bool   { return f.With != nil }

func (f Func[Q, A]) run(q Q, c *Caller) A {
	if f.With != nil {
		return f.With(q, c)
	}
	return f.Do(q, c.at)
}

func (f Func[Q, A]) answer(question []byte, c *Caller) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("it broke down: %v", p)
		}
	}()
	var q Q
	if err := questions.Unmarshal(question, &q); err != nil {
		return nil, fmt.Errorf("read question: %w", err)
	}
	return encoding.Marshal(f.run(q, c))
}

// First byte of an answer.
const (
	answered = 'a'
	failed   = 'f'
	reached  = 'r' // no answer yet: four bytes say how far the function has come
	asks     = 'q' // no answer yet: the function asks something back
)

// First byte of what the server says to what a function asks.
const (
	replied = 'a'
	refuses = 'e' // with an error in words
)

// guestName is the name (argv[0]) of a process that is a child.
const guestName = "writ-sandbox"

// serving says that the main of this process calls Serve, so that a child of
// it would.
var serving atomic.Bool

// Serve serves as a child where this process is one, until its input ends;
// false: it is none. A main calls it before anything else.
func Serve(functions ...Function) bool {
	if len(os.Args) == 0 || os.Args[0] != guestName {
		serving.Store(true)
		return false
	}
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	layers, err := confine(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "confine:", err)
		os.Exit(1)
	}
	debug.SetMemoryLimit(goalMemory)
	hello, err := encoding.Marshal(layers)
	if err == nil {
		err = writeFrame(os.Stdout, hello)
	}
	if err != nil {
		os.Exit(1)
	}
	serve(os.Stdin, os.Stdout, functions)
	return true
}

// question is one that has been read.
type question struct{ name, body []byte }

// serve answers one question after the other. It ends with its input also in
// the middle of one, which may have no end: else the child could outlive a
// server that was killed, on a kernel that does not tell.
func serve(r io.Reader, w io.Writer, functions []Function) {
	byName := map[string]Function{}
	for _, f := range functions {
		byName[f.name()] = f
	}
	asked, replies := make(chan question), make(chan []byte)
	go func() {
		in := bufio.NewReaderSize(r, 1<<16)
		for {
			name, err := readFrame(in, 1<<10)
			if err != nil {
				os.Exit(0)
			}
			body, err := readFrame(in, maxQuestion)
			if err != nil {
				os.Exit(0)
			}
			if len(name) == 0 { // what the function has asked
				replies <- body
				continue
			}
			asked <- question{name, body}
		}
	}()
	for q := range asked {
		if writeAnswer(w, byName[string(q.name)], q, replies) != nil {
			return
		}
	}
}

func writeAnswer(w io.Writer, f Function, q question, replies <-chan []byte) error {
	if f == nil {
		return writeFrame(w, []byte{failed}, fmt.Appendf(nil, "there is no function %s", q.name))
	}
	c := &Caller{at: func(n int) {
		_ = writeFrame(w, binary.BigEndian.AppendUint32([]byte{reached}, uint32(n))) //nolint:gosec,errcheck // who does not read it has gone, and the answer says so
	}, ask: func(body []byte) ([]byte, error) {
		if err := writeFrame(w, []byte{asks}, body); err != nil {
			os.Exit(0)
		}
		return readReply(<-replies)
	}}
	if f.file() {
		file, err := takeFile()
		if err != nil {
			return err
		}
		defer file.close()
		c.File = file
	}
	body, err := f.answer(q.body, c)
	if err != nil {
		return writeFrame(w, []byte{failed}, []byte(err.Error()))
	}
	return writeFrame(w, []byte{answered}, body)
}

func readReply(b []byte) ([]byte, error) {
	switch {
	case len(b) > 0 && b[0] == replied:
		return b[1:], nil
	case len(b) > 0 && b[0] == refuses:
		return nil, errors.New(string(b[1:]))
	}
	return nil, errors.New("what was asked has no answer")
}
