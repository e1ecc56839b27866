package containerd

import (
	"context"
	"fmt"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Update changes the limits of a running container. A limit that is zero is
// taken away.
func (r *Runtime) Update(ctx context.Context, id string, res runtime.Resources) error {
	ctx, err := r.await(ctx)
	if err != nil {
		return err
	}
	rec := r.record(id)
	if rec == nil || rec.get().State != runtime.Running {
		return fmt.Errorf("update container %s: %w", id, runtime.ErrNotFound)
	}
	limits, err := typeurl.MarshalAny(updateOf(res))
	if err != nil {
		return fmt.Errorf("encode limits: %w", err)
	}
	rec.act.Lock()
	defer rec.act.Unlock()
	_, err = r.client.TaskService().Update(ctx, &tasks.UpdateTaskRequest{ContainerID: id, Resources: typeurl.MarshalProto(limits)})
	if err = errgrpc.ToNative(err); err != nil {
		return fmt.Errorf("update container %s: %w", id, err)
	}
	return nil
}

// updateOf writes limits so that none replaces some: -1 is the kernel's word
// for no limit.
func updateOf(res runtime.Resources) *specs.LinuxResources {
	quota, period, memory := int64(-1), uint64(100000), int64(-1)
	if res.CPUQuota > 0 {
		quota, period = res.CPUQuota, res.CPUPeriod
	}
	if res.Memory > 0 {
		memory = res.Memory
	}
	out := &specs.LinuxResources{
		CPU:    &specs.LinuxCPU{Quota: &quota, Period: &period},
		Memory: &specs.LinuxMemory{Limit: &memory},
	}
	if res.CPUShares > 0 {
		out.CPU.Shares = &res.CPUShares
	}
	return out
}
