package nodeagent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
)

// hungRuntime answers nothing, like a daemon whose calls wait.
type hungRuntime struct{ *fake.Runtime }

func (hungRuntime) Info(ctx context.Context) (runtime.Info, error) {
	<-ctx.Done()
	return runtime.Info{}, ctx.Err()
}

// A node whose runtime hangs is not ready, before the next status is due.
func TestHungRuntimeIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := client.NewFake()
		a := New(Config{NodeName: "n1", NodeIP: "127.0.0.1", Client: api, Cache: api.Cache(), Runtime: hungRuntime{fake.New(fake.Config{})}, Network: newFakeNetwork(1), simulated: true})
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		st := nodeStatus(corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"i"}}}}, a.look(ctx))
		if took := time.Since(begin); took > statusLook {
			t.Errorf("it took %s to see", took)
		}
		for _, c := range st.Conditions {
			if c.Type == corev1.NodeReady && (c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "container runtime is down: it has not answered for 8s")) {
				t.Errorf("ready: %+v", c)
			}
		}
		if len(st.Images) != 1 {
			t.Errorf("images: %v", st.Images)
		}
	})
}
