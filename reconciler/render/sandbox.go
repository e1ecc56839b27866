package render

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"cuelang.org/go/cue/token"
	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// A CUE evaluation can be neither interrupted nor bounded in memory. So it can
// be done in a child: this binary again, which serves one evaluation after the
// other, ends when it has had nothing to do, and is killed when one takes too
// long or too much.

// childVariable says to this binary that it is such a child.
const childVariable = "WRIT_RENDER_CHILD"

// Limits of a child.
const (
	childMemory = 1 << 30          // bytes of data
	childIdle   = 20 * time.Second // after which it ends
)

// Sandbox evaluates CUE packages in a child process. Its methods may be called
// from several goroutines; one evaluation runs at a time.
type Sandbox struct {
	mu   sync.Mutex
	path string
	now  *process
	idle *time.Timer
	peak int64 // most memory that a child had, in bytes
}

// NewSandbox returns a sandbox that runs a binary whose main calls ServeChild
// first. It starts nothing.
func NewSandbox(binary string) *Sandbox { return &Sandbox{path: binary} }

// process is a running child.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// job is what a child is asked, and answer what it says.
type (
	job struct {
		Path      string
		Files     map[string][]byte
		Variables map[string]string
	}
	answer struct {
		Findings []v1alpha1.Finding
		Nodes    []wireNode
	}
	wireNode struct {
		Kind   nodeKind
		File   string
		At     [2]int      // line, column
		Text   string      `json:",omitempty"`
		Fields []wireField `json:",omitempty"`
		Items  []wireNode  `json:",omitempty"`
	}
	wireField struct {
		Key   string
		File  string
		At    [2]int
		Value wireNode
	}
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
	serve(os.Stdin, os.Stdout)
	return true
}

func serve(r io.Reader, w io.Writer) {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	for {
		var j job
		if in.Decode(&j) != nil || out.Encode(j.run()) != nil {
			return
		}
	}
}

// run evaluates a package.
func (j *job) run() answer {
	var files []File
	for p, data := range j.Files {
		files = append(files, File{Path: p, Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
	}
	u := &Unit{Path: j.Path, format: formatCUE, cue: &cueModule{fs: newCUEFS(files)}, opts: &Options{Variables: j.Variables}}
	var nodes []*node
	out := evaluate(u, func(n *node) { nodes = append(nodes, n) })
	a := answer{Findings: out.Findings}
	for _, n := range nodes {
		a.Nodes = append(a.Nodes, wire(n))
	}
	return a
}

func wirePos(p token.Pos) (string, [2]int) { return p.Filename(), [2]int{p.Line(), p.Column()} }

func wire(n *node) wireNode {
	out := wireNode{Kind: n.kind, Text: n.text}
	out.File, out.At = wirePos(n.pos)
	for _, f := range n.fields {
		w := wireField{Key: f.key, Value: wire(f.val)}
		w.File, w.At = wirePos(f.pos)
		out.Fields = append(out.Fields, w)
	}
	for _, item := range n.items {
		out.Items = append(out.Items, wire(item))
	}
	return out
}

// unwire makes nodes of an answer; files gives the positions.
type unwire struct {
	files    map[string]*token.File
	contents map[string][]byte
}

func (w *unwire) pos(file string, at [2]int) token.Pos {
	f := w.files[file]
	if f == nil {
		data := w.contents[strings.TrimPrefix(file, "/")]
		f = token.NewFile(file, 0, len(data)+1)
		f.SetLinesForContent(data)
		w.files[file] = f
	}
	lines := f.Lines()
	if at[0] < 1 || at[0] > len(lines) {
		return token.NoPos
	}
	return f.Pos(min(lines[at[0]-1]+max(at[1]-1, 0), f.Size()), token.NoRelPos)
}

func (w *unwire) node(n wireNode) *node {
	out := &node{kind: n.Kind, text: n.Text, pos: w.pos(n.File, n.At)}
	for _, f := range n.Fields {
		out.fields = append(out.fields, field{f.Key, w.pos(f.File, f.At), w.node(f.Value)})
	}
	for _, item := range n.Items {
		out.items = append(out.items, w.node(item))
	}
	return out
}

// render evaluates a unit in the child.
func (s *Sandbox) render(ctx context.Context, u *Unit) (*Rendered, error) {
	j := job{Path: u.Path, Files: map[string][]byte{}, Variables: u.opts.Variables}
	for _, f := range u.cueFiles {
		data, err := f.read(maxFileSize)
		if err != nil {
			return nil, err
		}
		j.Files[f.Path] = data
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, evalTimeout)
	defer cancel()
	var a answer
	for attempt := range 2 {
		fresh := s.now == nil
		err := s.ask(ctx, &j, &a)
		switch {
		case err == nil:
			out := &Rendered{unit: u, Findings: a.Findings}
			w := &unwire{files: map[string]*token.File{}, contents: j.Files}
			for _, n := range a.Nodes {
				identify(out, w.node(n))
			}
			return out, nil
		case ctx.Err() != nil:
			return tooSlow(ctx, u, "CUE package", evalTimeout)
		case fresh || attempt > 0:
			out := &Rendered{unit: u}
			out.find(v1alpha1.Finding{File: u.Path, Rule: "TooLarge",
				Message: fmt.Sprintf("the CUE package needs more than %s of memory, or the evaluator broke down: %v", megabytes(childMemory), err),
				Hint:    "make it smaller, or split it"})
			return out, nil
		}
	}
	return nil, errors.New("evaluate CUE package: the child process does not answer")
}

// ask sends a job to the child and waits for the answer. An error ends the
// child.
func (s *Sandbox) ask(ctx context.Context, j *job, a *answer) error {
	if s.now == nil {
		if err := s.start(); err != nil {
			return err
		}
	}
	c := s.now
	s.idle.Stop()
	done := make(chan error, 1)
	go func() {
		if err := json.NewEncoder(c.in).Encode(j); err != nil {
			done <- err
			return
		}
		done <- c.out.Decode(a)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.stop()
		return err
	}
	s.idle.Reset(childIdle)
	return nil
}

func (s *Sandbox) start() error {
	c := &process{cmd: exec.Command(s.path)}
	c.cmd.Env = []string{childVariable + "=1"}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start evaluator: %w", err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start evaluator: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start evaluator: %w", err)
	}
	c.out, s.now = json.NewDecoder(io.LimitReader(out, 1<<40)), c
	s.idle = time.AfterFunc(childIdle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.now == c {
			s.stop()
		}
	})
	return nil
}

// stop ends the child and waits for it.
func (s *Sandbox) stop() {
	if s.now == nil {
		return
	}
	s.idle.Stop()
	_ = s.now.in.Close()
	_ = s.now.cmd.Process.Kill() // it may have ended
	_ = s.now.cmd.Wait()
	if u, ok := s.now.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.peak = max(s.peak, u.Maxrss<<10)
	}
	s.now = nil
}

// Close ends the child.
func (s *Sandbox) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}
