package charts

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// server runs the API alone, as a process, and returns the file of its
// break-glass credential. Nothing runs pods, and nobody writes but the test.
func server(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs("../../../bin/writ")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("make build comes first: %v", err)
	}
	dir := t.TempDir()
	var log bytes.Buffer
	cmd := exec.Command(bin, "server", "--api-only", "--no-agent", "--data-dir", dir, "--listen", free(t), "--node-name", "none")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("writ server: %v", err)
		}
		if t.Failed() {
			t.Logf("what it said:\n%s", &log)
		}
	})
	kubeconfig := filepath.Join(dir, "admin.kubeconfig")
	eventually(t, "the server is ready", func() bool {
		cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return false
		}
		_, err = kubernetes.NewForConfigOrDie(cfg).RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err == nil
	})
	return kubeconfig
}

// free is an address that was free a moment ago. This module has no part of the
// other one, whose tests draw such ports with more care (ci/freeport).
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually polls; what it waits for comes from another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within a minute", what)
}
