package containerd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	ctrd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"
	"google.golang.org/grpc"

	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// A daemon with some containers, whose file systems cannot be listed.
type (
	listed struct {
		containers.Store
		all []containers.Container
	}
	runningTasks struct {
		tasks.TasksClient
		ids []string
	}
	noSnapshots struct{ snapshots.Snapshotter }
)

func (l listed) List(context.Context, ...string) ([]containers.Container, error) { return l.all, nil }

func (r runningTasks) List(context.Context, *tasks.ListTasksRequest, ...grpc.CallOption) (*tasks.ListTasksResponse, error) {
	out := &tasks.ListTasksResponse{}
	for i, id := range r.ids {
		out.Tasks = append(out.Tasks, &task.Process{ID: id, Pid: uint32(100 + i), Status: task.Status_RUNNING})
	}
	return out, nil
}

func (noSnapshots) Walk(context.Context, snapshots.WalkFunc, ...string) error {
	return errors.New("the metadata is damaged")
}

// What is wrong with one container, or with the file systems of all, does not keep
// the agent from going on with the others.
func TestBadRecordsDoNotEndTheAgent(t *testing.T) {
	dir := t.TempDir()
	notADirectory := filepath.Join(dir, "file")
	if err := os.WriteFile(notADirectory, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := New(Config{DataDir: dir, Log: slog.New(slog.DiscardHandler)})
	r.snapshotter = "overlayfs"
	var all []containers.Container
	var ids []string
	for _, name := range []string{"unreadable", "torn", "nolog", "good"} {
		log := filepath.Join(dir, "logs", name+".log")
		if name == "nolog" {
			log = filepath.Join(notADirectory, "0.log")
		}
		all = append(all, containers.Container{ID: name, Labels: map[string]string{labelPodUID: "u-" + name, labelName: "main", labelLog: log}})
		ids = append(ids, name)
		if err := crilog.PrepareRaw(r.containerDir(name)); err != nil {
			t.Fatal(err)
		}
		if err := r.saveFacts(runtime.Container{ID: name, StartedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	state := filepath.Join(r.containerDir("unreadable"), "state.json")
	if err := errors.Join(os.Remove(state), os.Mkdir(state, 0o700)); err != nil { // reading it fails
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.containerDir("torn"), "state.json"), []byte(`{"Start`), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := ctrd.New("", ctrd.WithServices(ctrd.WithContainerStore(listed{all: all}), ctrd.WithTaskClient(runningTasks{ids: ids}),
		ctrd.WithSnapshotters(map[string]snapshots.Snapshotter{"overlayfs": noSnapshots{}})))
	if err != nil {
		t.Fatal(err)
	}
	r.client = client
	if r.logs, err = crilog.NewCollector(crilog.CollectorConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := r.adopt(t.Context()); err != nil {
		t.Fatalf("the agent would end: %v", err)
	}
	for _, id := range ids {
		defer r.logs.Forget(id)
		if r.record(id) == nil {
			t.Errorf("%s is forgotten", id)
		}
	}
	for name, pid := range map[string]int{"torn": 101, "good": 103} {
		if c := r.record(name).get(); c.State != runtime.Running || c.Pid != pid {
			t.Errorf("%s: %s, pid %d, want %d", name, c.State, c.Pid, pid)
		}
	}
}
