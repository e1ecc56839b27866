package fake_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/nodeagent/runtime/conformance"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	r := fake.New(fake.Config{Exec: fake.Programs, Missing: func(ref string) bool { return ref == "writ.local/none:v1" }})
	conformance.Suite(t, r, "/test")
}
