package server

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Journal is where the node's own services log.
type Journal struct {
	// Command is journalctl(1), with arguments that go before all others. Default:
	// "journalctl".
	Command []string
	// Dir has the log files of services that do not write to the journal. Default:
	// /var/log.
	Dir string
}

const (
	// queryTime bounds a query that does not follow, as upstream.
	queryTime = 30 * time.Second
	// maxQueries is how many run at once, those that follow among them.
	maxQueries = 8
	// notFoundHeader names, once each, what was asked for and has no log. For
	// people the text of the answer says it, as upstream's does.
	notFoundHeader = "Writ-Log-Not-Found"
)

func (j *Journal) dir() string { return cmp.Or(j.Dir, "/var/log") }

func (j *Journal) run(ctx context.Context, w io.Writer, arguments ...string) error {
	command := j.Command
	if len(command) == 0 {
		command = []string{"journalctl"}
	}
	//nolint:gosec // names were checked, and no shell is in between
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], arguments)...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SYSTEMD_COLORS=0")
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

// units are the services that have logged, or that systemd has said something
// about.
func (j *Journal) units(ctx context.Context) (map[string]bool, error) {
	units := map[string]bool{}
	for _, f := range []string{"_SYSTEMD_UNIT", "UNIT"} {
		out := &limited{}
		if err := j.run(ctx, out, "--field="+f); err != nil {
			return nil, fmt.Errorf("list units of the journal: %w: %s", err, bytes.TrimSpace(out.b))
		}
		for line := range strings.Lines(string(out.b)) {
			if u := strings.TrimSpace(line); strings.HasSuffix(u, ".service") {
				units[u] = true
			}
		}
	}
	return units, nil
}

// unitNames are the names that one may ask for.
func unitNames(units map[string]bool) []string {
	out := []string{kernelLog}
	for _, u := range slices.Sorted(maps.Keys(units)) {
		out = append(out, strings.TrimSuffix(u, ".service"))
	}
	return out
}

// nodeLogs answers /logs/: with a query the logs of the node's services
// (KEP-2258, "kubectl get --raw /api/v1/nodes/<name>/proxy/logs/?query=<service>"),
// without one the names that it may have, one a line.
func (s *Server) nodeLogs(w http.ResponseWriter, r *http.Request) {
	q, errs := parseQuery(r.URL.Query())
	path := strings.TrimPrefix(r.URL.Path, "/logs/")
	switch {
	case len(errs) > 0:
		http.Error(w, errs.ToAggregate().Error(), http.StatusBadRequest)
		return
	case path != "" && q == nil:
		http.Error(w, "a file below "+s.cfg.Journal.dir()+" is asked for by logs/?query=/<name>", http.StatusNotFound)
		return
	case path != "":
		http.Error(w, "path not allowed in query mode", http.StatusNotAcceptable)
		return
	}
	if q != nil {
		if errs := q.validate(s.cfg.Journal.dir()); len(errs) > 0 {
			http.Error(w, errs.ToAggregate().Error(), http.StatusNotAcceptable)
			return
		}
	}
	select {
	case s.queries <- struct{}{}:
		defer func() { <-s.queries }()
	default:
		http.Error(w, fmt.Sprintf("%d log queries run already: try again when one has ended", maxQueries), http.StatusTooManyRequests)
		return
	}
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if q == nil || !q.follow {
		ctx, cancel = context.WithTimeout(ctx, queryTime)
	}
	defer cancel()
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	switch {
	case q == nil:
		s.listUnits(ctx, w)
	case len(q.files) == 1:
		out, end := compressed(w, r)
		defer end()
		s.cfg.Journal.copyFile(ctx, out, q.files[0], logName(q.files[0]))
	default:
		s.copyLogs(ctx, w, r, q)
	}
}

func (s *Server) listUnits(ctx context.Context, w http.ResponseWriter) {
	units, err := s.cfg.Journal.units(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, strings.Join(unitNames(units), "\n")+"\n") // the client is gone
}

// copyLogs answers from the journal, and of services that are not there from
// their files.
func (s *Server) copyLogs(ctx context.Context, w http.ResponseWriter, r *http.Request, q *logQuery) {
	j := s.cfg.Journal
	units, err := j.units(ctx)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("query logs", "err", err) // what has files is found all the same
	}
	var here, elsewhere []string
	for _, name := range q.services {
		switch {
		case name == kernelLog, units[name]:
			here = append(here, name)
		case units[name+".service"]:
			here = append(here, name+".service")
		default:
			elsewhere = append(elsewhere, name)
			if !j.hasFile(name) {
				w.Header().Add(notFoundHeader, name)
			}
		}
	}
	var out io.Writer = &flusher{w: w}
	if q.follow {
		_, _ = out.Write(nil) // whoever follows knows that it has begun; the client is gone otherwise
	} else {
		var end func()
		out, end = compressed(w, r)
		defer end()
	}
	if len(here) > 0 {
		j.copyJournal(ctx, out, q.arguments(here))
	}
	if len(elsewhere) > 0 && q.options != (options{}) {
		if slices.ContainsFunc(elsewhere, j.hasFile) {
			fmt.Fprintf(out, "\noptions present and query resolved to log files for %v\ntry without specifying options\n", elsewhere)
			return
		}
	}
	for _, name := range elsewhere {
		j.copyFile(ctx, out, name, fileNames(name)...)
	}
}

// compressed is upstream's way to have less to send.
func compressed(w http.ResponseWriter, r *http.Request) (io.Writer, func()) {
	if r.Header.Get("Accept-Encoding") != "gzip" {
		return w, func() {}
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level exists
	}
	return z, func() { _ = z.Close() } //nolint:errcheck // the client is gone
}

// copyJournal runs journalctl. What it complains of is part of its output.
func (j *Journal) copyJournal(ctx context.Context, w io.Writer, arguments []string) {
	err := j.run(ctx, w, arguments...)
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		fmt.Fprintf(w, "\nerror: cut off after %s: ask for less, by tailLines or sinceTime\n", queryTime)
	case err == nil, ctx.Err() != nil, errors.As(err, &exit):
	default:
		fmt.Fprint(w, "\nerror: journal output not available\n")
	}
}

// fileNames are the files that a service may log to, as upstream guesses them.
func fileNames(service string) []string {
	return []string{service, service + ".log", service + "/" + service + ".log"}
}

func (j *Journal) hasFile(service string) bool {
	return slices.ContainsFunc(fileNames(service), func(name string) bool { return isLogFile(j.dir(), name) == nil })
}

// copyFile writes the first of some files that is there.
func (j *Journal) copyFile(ctx context.Context, w io.Writer, asked string, names ...string) {
	for _, name := range names {
		err := isLogFile(j.dir(), name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
			continue
		}
		if err == nil {
			err = copyIn(ctx, w, j.dir(), name)
		}
		if err != nil {
			fmt.Fprintf(w, "\nerror getting log for %s: %v\n", asked, err)
		}
		return
	}
	fmt.Fprintf(w, "\nlog not found for %s\n", asked)
}

func copyIn(ctx context.Context, w io.Writer, dir, name string) error {
	f, err := os.OpenInRoot(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, bounded{ctx, f})
	return err
}

// bounded ends with its context.
type bounded struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}
