package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // on loopback of a network of its own
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/cmd/writ/cluster"
)

// soaked is a cluster that is soaked.
type soaked struct {
	e             *env
	server, agent *exec.Cmd
	client        *kubernetes.Clientset
	w             *worktree
	profiles      string // directory
}

// startSoak starts a server and simulated nodes, and declares what commits change.
func startSoak(ctx context.Context, e *env) (*soaked, error) {
	s := &soaked{e: e, profiles: filepath.Join(filepath.Dir(e.bin), "soak")}
	if err := os.MkdirAll(s.profiles, 0o750); err != nil {
		return nil, err
	}
	var err error
	if s.server, _, err = e.server(ctx); err != nil {
		return nil, err
	}
	if s.client, err = e.client(); err != nil {
		return nil, err
	}
	if s.agent, err = e.simulate(ctx, soakNodes); err != nil {
		return nil, err
	}
	if s.w, err = e.builtin(ctx, soakDeployments); err != nil {
		return nil, err
	}
	return s, s.w.fill(0, soakDeployments, 0, soakedDeployment)
}

// soakedDeployment has pods, and a change of round rolls them.
func soakedDeployment(i, round int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: d-%[1]d, namespace: bench}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: d-%[1]d}}
  template:
    metadata: {labels: {app: d-%[1]d}, annotations: {round: "%[2]d"}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: main
          image: writ.local/pause:v1
          resources: {requests: {cpu: 10m, memory: 16Mi}}
`, i, round, soakReplicas)
}

// say tells whoever waits how it goes.
func (s *soaked) say(round int, took time.Duration) {
	server, err := measurePid(s.server.Process.Pid)
	all, err0 := measure(s.server)
	agent, err2 := measurePid(s.agent.Process.Pid)
	info, err3 := os.Stat(storePath(s.e.data()))
	if errors.Join(err, err0, err2, err3) != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "soak: %d commits, %s: server %s (with its children %s), nodes %s, store's file %s\n", round, took.Round(time.Second), mib(server.anon), mib(all.anon), mib(agent.anon), mib(info.Size()))
}

// profile writes profiles of both heaps, after a collection.
func (s *soaked) profile(ctx context.Context, name string) error {
	for _, kind := range []string{"heap", "goroutine"} {
		text, err := s.client.RESTClient().Get().AbsPath("/debug/pprof/"+kind).Param("gc", "1").DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("profile the server: %w", err)
		}
		if err := os.WriteFile(filepath.Join(s.profiles, "server-"+kind+"-"+name), text, 0o600); err != nil {
			return err
		}
		resp, err := http.Get("http://" + simulatorAddress + "/debug/pprof/" + kind + "?gc=1") //nolint:gosec,noctx // an address of our own
		if err != nil {
			return fmt.Errorf("profile the nodes: %w", err)
		}
		text, err = io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return fmt.Errorf("profile the nodes: %w", err)
		}
		if err := os.WriteFile(filepath.Join(s.profiles, "nodes-"+kind+"-"+name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

const (
	simulator        = "WRIT_BENCH_NODES" // how many this process is to be
	simulatorAddress = "127.0.0.1:16060"
)

// simulate starts this program again, as the process of simulated nodes: what
// `writ agent --runtime fake` runs, and profiles of it.
func (e *env) simulate(ctx context.Context, count int) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(e.dir, "nodes.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), simulator+"="+strconv.Itoa(count), simulator+"_DATA="+e.data())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e.procs = append(e.procs, cmd)
	return cmd, nil
}

// runSimulated is the process of simulated nodes.
func runSimulated(ctx context.Context) error {
	n, err := strconv.Atoi(os.Getenv(simulator))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", simulatorAddress)
	if err != nil {
		return err
	}
	go http.Serve(l, nil) //nolint:errcheck,gosec // it ends with the process
	cfg := cluster.Config{DataDir: os.Getenv(simulator + "_DATA"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	return cluster.Simulate(ctx, cluster.NodeConfig{Config: cfg, Server: "https://" + address}, n)
}
