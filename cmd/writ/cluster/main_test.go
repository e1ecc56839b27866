package cluster

import (
	"os"
	"testing"

	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/sandbox"
)

// The children of the server's sandbox are this very program.
func TestMain(m *testing.M) {
	if sandbox.Serve(reconciler.Functions()...) {
		return
	}
	os.Exit(m.Run())
}
