// Command upstream runs Kubernetes' own API server over an embedded etcd, as
// the oracle: what it answers is right.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/writ-os/writ/ci/conformance/oracle"
)

func main() {
	var cfg oracle.Config
	flag.StringVar(&cfg.Dir, "data-dir", "", "`directory` for etcd, keys, admin.kubeconfig and log")
	flag.StringVar(&cfg.Etcd, "etcd", "", "data `directory` of etcd; default <data-dir>/etcd")
	flag.StringVar(&cfg.Binary, "kube-apiserver", "bin/kube-apiserver", "the `file` to run")
	flag.IntVar(&cfg.Port, "port", 0, "`port` on 127.0.0.1; 0 is any")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "upstream --data-dir DIR [--port N] [-- FLAGS OF kube-apiserver]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	cfg.Flags = flag.Args()
	if cfg.Dir == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, cfg oracle.Config) error {
	o, err := oracle.New(cfg)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-o.Ready():
			fmt.Printf("ready: %s\nexport KUBECONFIG=%s\n", o.URL(), o.Kubeconfig())
		case <-ctx.Done():
		}
	}()
	return o.Run(ctx)
}
