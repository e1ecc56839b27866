package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	goruntime "runtime"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/twin"
	"github.com/writ-os/writ/schema"
)

// Intervals, as upstream.
const (
	leaseDuration  = 40 * time.Second
	leaseRenewal   = 10 * time.Second
	statusLook     = 10 * time.Second
	statusReport   = 5 * time.Minute
	leaseNamespace = "kube-node-lease"
	// runtimeProbe is how long the runtime may take to answer for a status: less
	// than the time between two.
	runtimeProbe = 8 * time.Second
)

func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// keepNode registers the node and keeps its status, written when something
// changes and otherwise every five minutes.
func (a *Agent) keepNode(ctx context.Context) error {
	var node *corev1.Node
	var reported time.Time
	var failures int
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(statusLook)
		var err error
		if node == nil {
			node, err = a.register(ctx)
			reported = time.Time{}
		}
		if err == nil {
			node, err = a.reportStatus(ctx, node, &reported)
		}
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		if isTaken(err) {
			return err
		}
		node = nil // read it again: it may have been deleted, or changed by others
		if failures++; failures == 1 || failures%10 == 0 {
			a.log.Warn("report node", "node", a.cfg.NodeName, "err", err)
		}
		timer.Reset(min(time.Duration(failures)*200*time.Millisecond, statusLook))
	}
}

// isTaken says whether another machine is the node. The agent ends then, its
// containers go on, and the next agent waits before it does anything.
func isTaken(err error) bool {
	var t *twin.TakenError
	return errors.As(err, &t)
}

// register makes the Node object, or brings the labels of the one that is
// there up to date.
func (a *Agent) register(ctx context.Context) (*corev1.Node, error) {
	node, err := client.Get[*corev1.Node](ctx, a.cfg.Client, schema.Key{Name: a.cfg.NodeName})
	labels := wantedLabels(a.cfg, goruntime.GOARCH)
	if apierrors.IsNotFound(err) {
		node = &corev1.Node{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: a.cfg.NodeName, Labels: labels},
			Spec:       corev1.NodeSpec{Taints: a.cfg.Taints},
		}
		created, err := client.Create(ctx, a.cfg.Client, node, client.WriteOptions{FieldManager: "kubelet"})
		if err != nil {
			return nil, fmt.Errorf("register node: %w", err)
		}
		a.log.Info("registered node", "node", a.cfg.NodeName)
		return created, nil
	}
	if err != nil {
		return nil, fmt.Errorf("register node: %w", err)
	}
	if err := a.name.Mine(node); err != nil {
		return nil, fmt.Errorf("register node: %w", err)
	}
	for k, v := range labels {
		if node.Labels[k] != v {
			return a.relabel(ctx, labels)
		}
	}
	return node, nil
}

func (a *Agent) relabel(ctx context.Context, labels map[string]string) (*corev1.Node, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return nil, fmt.Errorf("label node: %w", err)
	}
	o, err := a.cfg.Client.Patch(ctx, schema.ResourceFor[*corev1.Node](), schema.Key{Name: a.cfg.NodeName},
		types.StrategicMergePatchType, patch, client.WriteOptions{FieldManager: "kubelet"})
	if err != nil {
		return nil, fmt.Errorf("label node: %w", err)
	}
	return o.(*corev1.Node), nil
}

// reportStatus writes the node's status if that is due.
func (a *Agent) reportStatus(ctx context.Context, node *corev1.Node, reported *time.Time) (*corev1.Node, error) {
	o := a.look(ctx)
	st := nodeStatus(node.Status, o)
	if !reported.IsZero() && heartbeatOnly(node.Status, st) && o.now.Sub(*reported) < statusReport {
		return node, nil
	}
	patch, err := nodePatch(node.Status, st)
	if err != nil {
		return nil, err
	}
	got, err := a.cfg.Client.Patch(ctx, schema.ResourceFor[*corev1.Node](), schema.KeyOf(node),
		types.StrategicMergePatchType, patch, client.WriteOptions{Subresource: "status", FieldManager: "kubelet"})
	if err != nil {
		return nil, fmt.Errorf("report node status: %w", err)
	}
	if reported.IsZero() {
		a.sayMissing(o)
	}
	*reported = o.now
	return got.(*corev1.Node), nil
}

// sayMissing logs once what this node cannot do.
func (a *Agent) sayMissing(o observed) {
	for _, m := range o.missing {
		a.log.Warn("this node cannot do everything", "node", a.cfg.NodeName, "missing", m)
	}
}

func nodePatch(from, to corev1.NodeStatus) ([]byte, error) {
	old, err := json.Marshal(&corev1.Node{Status: from})
	if err != nil {
		return nil, err
	}
	next, err := json.Marshal(&corev1.Node{Status: to})
	if err != nil {
		return nil, err
	}
	b, err := strategicpatch.CreateTwoWayMergePatch(old, next, &corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("diff node status: %w", err)
	}
	return b, nil
}

// look gathers what the node's status is made from.
func (a *Agent) look(ctx context.Context) observed {
	o := observed{now: time.Now(), name: a.cfg.NodeName, ip: a.cfg.NodeIP, port: a.port(), machine: &a.machine}
	// A runtime that does not answer is as good as none, and must not keep the
	// node from saying so: calls wait for a daemon that is away.
	ctx, cancel := context.WithTimeout(ctx, runtimeProbe)
	defer cancel()
	info, err := a.cfg.Runtime.Info(ctx)
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		o.runtimeErr = fmt.Sprintf("it has not answered for %s", runtimeProbe)
	} else if err != nil {
		o.runtimeErr = err.Error()
	} else {
		o.runtime, o.missing = info.Name+"://"+info.Version, info.Missing
	}
	if a.cfg.simulated {
		return o
	}
	o.pressure = readPressure(a.cfg.DataDir)
	opened, dropped, err := network.LetThrough("")
	if err != nil {
		a.log.Debug("look for firewalls", "err", err) // a kernel without nftables has said so before
	}
	if opened {
		a.log.Info("the firewall of iptables drops what is forwarded: rules let pods through now", "node", a.cfg.NodeName, "chain", "FORWARD")
	}
	o.missing = append(o.missing, dropped...)
	if o.runtimeErr != "" {
		return o
	}
	if o.images, err = a.cfg.Runtime.Images(ctx); err != nil {
		o.images = nil // those that were known stay
	}
	return o
}

func (a *Agent) port() int32 {
	_, p, err := net.SplitHostPort(a.cfg.Server.Addr)
	if err != nil {
		return 10250
	}
	n, err := strconv.ParseInt(p, 10, 32)
	if err != nil {
		return 10250
	}
	return int32(n)
}

// keepLease renews the node's lease: the sign of life that the control plane
// watches.
func (a *Agent) keepLease(ctx context.Context) error {
	var lease *coordinationv1.Lease
	var failures int
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(leaseRenewal)
		var err error
		if lease, err = a.renew(ctx, lease); err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		// Nobody else writes it but another machine of this name.
		if apierrors.IsConflict(err) {
			if err := a.name.Check(ctx); isTaken(err) {
				return fmt.Errorf("renew lease: %w", err)
			}
		}
		if failures++; failures == 1 || failures%10 == 0 {
			a.log.Warn("renew lease", "node", a.cfg.NodeName, "err", err)
		}
		timer.Reset(min(time.Duration(failures)*200*time.Millisecond, leaseRenewal))
	}
}

// renew writes the lease. An error means that it is read anew the next time.
func (a *Agent) renew(ctx context.Context, have *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now := metav1.NewMicroTime(time.Now())
	if have == nil {
		got, err := client.Get[*coordinationv1.Lease](ctx, a.cfg.Client, schema.Key{Namespace: leaseNamespace, Name: a.cfg.NodeName})
		if apierrors.IsNotFound(err) {
			return a.createLease(ctx, now)
		}
		if err != nil {
			return nil, fmt.Errorf("read lease: %w", err)
		}
		have = got
	}
	next := have.DeepCopy()
	next.Spec.RenewTime = &now
	next.Spec.HolderIdentity = &a.cfg.NodeName
	next.Spec.LeaseDurationSeconds = new(int32(leaseDuration / time.Second))
	got, err := client.Update(ctx, a.cfg.Client, next, client.WriteOptions{FieldManager: "kubelet"})
	if err != nil {
		return nil, fmt.Errorf("renew lease: %w", err)
	}
	return got, nil
}

func (a *Agent) createLease(ctx context.Context, now metav1.MicroTime) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: a.cfg.NodeName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &a.cfg.NodeName, LeaseDurationSeconds: new(int32(leaseDuration / time.Second)), RenewTime: &now,
		},
	}
	// The Node owns its lease, so that it goes with it.
	if node, err := client.Get[*corev1.Node](ctx, a.cfg.Client, schema.Key{Name: a.cfg.NodeName}); err == nil {
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("create lease: %w", err)
	}
	got, err := client.Create(ctx, a.cfg.Client, lease, client.WriteOptions{FieldManager: "kubelet"})
	if err != nil {
		return nil, fmt.Errorf("create lease: %w", err)
	}
	return got, nil
}
