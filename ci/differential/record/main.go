// Command record asks Kubernetes' own API server what the files of testdata
// ask, and writes its answers into them.
//
//	record -upstream bin/upstream -kube-apiserver bin/kube-apiserver testdata/*.txtar
//
// It starts a server of its own in a directory that it removes, or uses the one
// whose data directory and URL are given. Files are played in the order given,
// all against the same server, as the test does.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/writ-os/writ/ci/differential/exchange"
	"github.com/writ-os/writ/ci/differential/upstream"
)

type config struct {
	upstream, apiserver string // binaries
	dir, url            string // of a server that runs
	only                bool
}

func main() {
	var cfg config
	flag.StringVar(&cfg.upstream, "upstream", "bin/upstream", "the `command` that runs upstream")
	flag.StringVar(&cfg.apiserver, "kube-apiserver", "bin/kube-apiserver", "upstream's `binary`")
	flag.StringVar(&cfg.dir, "data-dir", "", "data `directory` of an upstream that runs already")
	flag.StringVar(&cfg.url, "url", "", "`URL` of an upstream that runs already")
	flag.BoolVar(&cfg.only, "missing", false, "leave files alone that are recorded completely")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, cfg config, paths []string) error {
	server, stop, err := cfg.server(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var failed []error
	for _, p := range paths {
		if err := record(ctx, server, p, cfg.only); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(failed...)
}

// server is the one that runs already, or a new one.
func (cfg config) server(ctx context.Context) (s exchange.Server, stop func(), err error) {
	if cfg.url != "" {
		users, err := upstream.Users(cfg.dir)
		if err != nil {
			return s, nil, err
		}
		return exchange.Server{URL: cfg.url, Client: users.Client, Strict: true}, users.Close, nil
	}
	dir, err := os.MkdirTemp("", "upstream-")
	if err != nil {
		return s, nil, err
	}
	u, err := upstream.Start(ctx, upstream.Config{Command: cfg.upstream, APIServer: cfg.apiserver, Dir: dir})
	if err != nil {
		return s, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return u.Server(), func() { u.Stop(); _ = os.RemoveAll(dir) }, nil //nolint:errcheck // temporary
}

func record(ctx context.Context, s exchange.Server, path string, only bool) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := exchange.Parse(data)
	if err != nil {
		return err
	}
	if only && complete(f) {
		return nil
	}
	began := time.Now()
	played := f.Play(ctx, s, func(e *exchange.Exchange, got string) { e.Response = got })
	log.Printf("%s: %d exchanges in %v", filepath.Base(path), len(f.Exchanges), time.Since(began).Round(time.Millisecond))
	out := f.Format()
	if again, err := exchange.Parse(out); err != nil || len(again.Exchanges) != len(f.Exchanges) {
		return fmt.Errorf("a response cannot be written as txtar: %w", err)
	}
	if bytes.Equal(out, data) {
		return played
	}
	return errors.Join(played, os.WriteFile(path, out, 0o644))
}

func complete(f *exchange.File) bool {
	for _, e := range f.Exchanges {
		if e.Response == "" {
			return false
		}
	}
	return true
}
