package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startTimeout bounds how long a child may take to be ready.
const startTimeout = time.Minute

// child is a running child.
type child struct {
	cmd    *exec.Cmd
	pool   string
	in     *os.File
	out    *os.File
	files  *os.File // over which it is given files
	reader *bufio.Reader
	last   *lastWords
	ended  chan struct{} // closed when it has, and was waited for
	busy   time.Duration
	expiry *time.Timer // while it waits
}

var errNotServed = errors.New("start child: the main of this binary does not call sandbox.Serve")

// start starts a child, and waits until it is confined.
func (s *Sandbox) start(ctx context.Context, pool string) (*child, error) {
	if !serving.Load() {
		return nil, errNotServed
	}
	c, err := s.spawn()
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	c.pool = pool
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	var layers Layers
	hello, err := readFrame(c.reader, 1<<10)
	if err == nil {
		err = answers.Unmarshal(hello, &layers)
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("start child: %w: %s", err, c.last.all())
	}
	s.started(&layers, c)
	return c, nil
}

// spawn runs the binary with as much apart as the kernel lets us.
func (s *Sandbox) spawn() (c *child, err error) {
	for _, attr := range attempts() {
		if c, err = s.spawnAs(attr); err == nil || !refused(err) {
			return c, err
		}
	}
	return nil, err
}

func (s *Sandbox) spawnAs(attr *syscall.SysProcAttr) (*child, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	files, theirFiles, err := socketPair()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close(), theirOut.Close(), out.Close())
	}
	widen(in)
	widen(out)
	c := &child{in: in, out: out, files: files, reader: bufio.NewReaderSize(out, 1<<16), last: &lastWords{}, ended: make(chan struct{}),
		cmd: &exec.Cmd{Path: cmp.Or(s.cfg.binary, self), Args: append([]string{guestName}, s.cfg.skip...), Env: []string{}, Dir: "/", SysProcAttr: attr,
			Stdin: theirIn, Stdout: theirOut, ExtraFiles: []*os.File{theirFiles}}}
	c.cmd.Stderr = c.last
	began := make(chan error, 1)
	go func() {
		// The kernel tells the child that its parent has died when this thread
		// ends: so it stays with this goroutine until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.ended)
		err := c.cmd.Start()
		_ = theirIn.Close()
		_ = theirOut.Close()
		_ = theirFiles.Close()
		began <- err
		if err == nil {
			_ = c.cmd.Wait() // how it ended is in ProcessState
		}
	}()
	if err := <-began; err != nil {
		return nil, errors.Join(err, in.Close(), out.Close(), files.Close())
	}
	return c, nil
}

// socketPair are two ends of a socket that has no name.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "files"), os.NewFile(uintptr(fds[1]), "files"), nil
}

// exchange asks one question. An error that is no failure of the function
// leaves the child useless.
func (c *child) exchange(ctx context.Context, q call) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	stop := context.AfterFunc(bounded, c.kill)
	defer stop()
	at := -1
	got, err := c.answer(q, &at)
	var death *Death
	switch {
	case err == nil, errors.As(err, &death):
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case bounded.Err() != nil:
		death = &Death{Cause: Late, Limit: q.limit}
	default:
		death = c.death()
	}
	if death != nil {
		death.At = at
		return nil, death
	}
	return got, nil
}

// answer sends a question and reads the answer. An error that is no *Death is
// that of a child which has gone.
func (c *child) answer(q call, at *int) ([]byte, error) {
	if q.help.File != nil {
		if err := giveFile(c.files, q.help.File); err != nil {
			return nil, err
		}
	}
	if err := writeFrame(c.in, []byte(q.name)); err != nil {
		return nil, err
	}
	if err := writeFrame(c.in, q.body); err != nil {
		return nil, err
	}
	for {
		got, err := readFrame(c.reader, q.most+1)
		switch {
		case errors.Is(err, errFrame):
			return nil, &Death{Cause: Garbage, Why: err.Error()}
		case err != nil:
			return nil, err
		case len(got) == 5 && got[0] == reached:
			*at = int(int32(binary.BigEndian.Uint32(got[1:]))) //nolint:gosec // who asked looks whether it can be
		case len(got) > 0 && got[0] == asks && q.help.Answer != nil:
			if err := c.reply(q.help.Answer(got[1:])); err != nil {
				return nil, err
			}
		case len(got) > 0 && got[0] == answered:
			return got[1:], nil
		case len(got) > 0 && got[0] == failed:
			return nil, &Death{Cause: Failed, Why: strings.ToValidUTF8(string(got[1:min(len(got), 4<<10)]), "?")}
		default:
			return nil, &Death{Cause: Garbage, Why: errFrame.Error()}
		}
	}
}

// reply answers what a function asks. A question has a name and this has none.
func (c *child) reply(body []byte, err error) error {
	if err := writeFrame(c.in, nil); err != nil {
		return err
	}
	if err != nil {
		return writeFrame(c.in, []byte{refuses}, []byte(err.Error()))
	}
	return writeFrame(c.in, []byte{replied}, body)
}

// death says why a child has ended that has closed its output.
func (c *child) death() *Death {
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-c.ended:
	case <-late.C: // it lives on without a word
		c.stop()
		return &Death{Cause: Garbage, Why: errFrame.Error()}
	}
	why := c.last.reason()
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case strings.Contains(why, "out of memory"), strings.Contains(why, "cannot allocate memory"), why == noThread:
		return &Death{Cause: Memory, Why: why}
	case why == "" && status.Signaled():
		why = "it was ended by a signal: " + status.Signal().String()
	}
	return &Death{Cause: Crashed, Why: cmp.Or(why, "it ended without an answer")}
}

// kill ends the child.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
}

// stop ends the child and waits for it.
func (c *child) stop() {
	c.kill()
	<-c.ended
	_ = c.in.Close()
	_ = c.out.Close()
	_ = c.files.Close()
}

// lastWords is the beginning of what a child says as it dies.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer. It takes all and keeps little.
func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p[:min(len(p), 4<<10-len(l.text))]...)
	return len(p), nil
}

func (l *lastWords) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

const noThread = "there was no room for another thread"

// reason is why the runtime has ended the child, in its words; nothing that was
// asked is in them.
func (l *lastWords) reason() string {
	for line := range strings.Lines(l.all()) {
		// A thread needs a stack: at the limit of memory it is at times the first
		// that gets none. One runtime says so with cgo, one without.
		if strings.Contains(line, "pthread_create failed") || strings.Contains(line, "failed to create new OS thread") {
			return noThread
		}
		for _, prefix := range []string{"fatal error: ", "runtime: "} {
			if why, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok && (prefix == "fatal error: " || strings.Contains(why, "memory")) {
				return why
			}
		}
	}
	return ""
}

var _ io.Writer = (*lastWords)(nil)
