package twin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Reason is that of the Event on a Node whose name another machine has, too.
const Reason = "NameTaken"

const (
	look     = 5 * time.Second
	sayAgain = 10 * time.Minute
	within   = 5 * time.Second // an answer must come
)

// Config is everything that a Name needs from outside.
type Config struct {
	NodeName string
	Client   client.Interface
	// Machine is this one; default This.
	Machine Machine
	Log     *slog.Logger
}

// Name is the name that this machine would have as a node.
type Name struct {
	cfg    Config
	log    *slog.Logger
	events *client.Recorder
	began  time.Time
	// In tests these are shorter.
	silence, look time.Duration
}

// New returns a name; it starts nothing.
func New(cfg Config) *Name {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Machine == (Machine{}) {
		cfg.Machine = This()
	}
	return &Name{cfg: cfg, log: cfg.Log, events: client.NewRecorder(cfg.Client, "kubelet", cfg.NodeName), began: time.Now(), silence: Silence, look: look}
}

// Check returns a *TakenError when another machine is the node, and another
// error when nobody could be asked.
func (n *Name) Check(ctx context.Context) error {
	node, err := n.node(ctx)
	if err != nil || node == nil {
		return err
	}
	return n.Mine(node)
}

// Mine returns a *TakenError when the Node is another machine.
func (n *Name) Mine(node *corev1.Node) error {
	if n.cfg.Machine.Other(of(node)) {
		return taken(node, n.cfg.Machine)
	}
	return nil
}

// Wait blocks until this machine may be the node, or ctx ends. It says what it
// waits for, in its log and by an Event on the Node.
func (n *Name) Wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.events.Run(ctx) //nolint:errcheck // it ends with ctx, and without an error
	}()
	defer func() { cancel(); <-done }()
	var seen Seen
	var w words
	for {
		v, err := n.once(ctx, &seen, &w)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.say("error", n.log.Warn, "it is not known yet whether another machine is this node", "node", n.cfg.NodeName, "err", err)
		case v == Ours:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(n.look):
		}
	}
}

// once looks, and takes over a name that is free: the next look shows whether
// it was the first to do so.
func (n *Name) once(ctx context.Context, seen *Seen, w *words) (Verdict, error) {
	node, err := n.node(ctx)
	if err != nil {
		return Unknown, err
	}
	var lease *coordinationv1.Lease
	if node != nil {
		if lease, err = n.lease(ctx); err != nil {
			return Unknown, err
		}
	}
	var v Verdict
	v, *seen = Decide(*seen, node, lease, n.cfg.Machine, time.Since(n.began), n.silence)
	switch v {
	case Free:
		if err := n.take(ctx, node); err != nil {
			return Unknown, err
		}
		n.log.Info("this machine is the node now: the one that was it is silent", "node", node.Name, "was", seen.machine.String())
		return Ours, nil
	case Unknown:
		w.say("unknown", n.log.Info, "another machine was this node: without a sign of life of it this one takes its place", "after", n.silence,
			"node", node.Name, "was", seen.machine.String())
	case Taken:
		why := taken(node, n.cfg.Machine)
		if w.say("taken", n.log.Warn, "waiting until the name is free: the other machine silent, or its Node deleted", "err", why) {
			n.events.Event(node, corev1.EventTypeWarning, Reason, why.Error())
		}
	}
	return v, nil
}

// words are what was said last: the same is said again after a while.
type words struct {
	kind string
	at   time.Time
}

func (w *words) say(kind string, log func(string, ...any), message string, args ...any) bool {
	if w.kind == kind && time.Since(w.at) < sayAgain {
		return false
	}
	w.kind, w.at = kind, time.Now()
	log(message, args...)
	return true
}

// take writes into the Node that this machine is it, unless anybody has written
// to it since it was read.
func (n *Name) take(ctx context.Context, node *corev1.Node) error {
	b, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID},
		"status":   map[string]any{"nodeInfo": map[string]any{"machineID": n.cfg.Machine.ID, "systemUUID": n.cfg.Machine.UUID}},
	})
	if err != nil {
		return fmt.Errorf("encode claim to node %s: %w", node.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err = n.cfg.Client.Patch(ctx, schema.ResourceFor[*corev1.Node](), schema.KeyOf(node), types.MergePatchType, b,
		client.WriteOptions{Subresource: "status", FieldManager: "kubelet"})
	if err != nil {
		return fmt.Errorf("take over node %s: %w", node.Name, err)
	}
	return nil
}

// node is the Node of the name; nil where there is none.
func (n *Name) node(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o, err := client.Get[*corev1.Node](ctx, n.cfg.Client, schema.Key{Name: n.cfg.NodeName})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", n.cfg.NodeName, err)
	}
	return o, nil
}

func (n *Name) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o, err := client.Get[*coordinationv1.Lease](ctx, n.cfg.Client, schema.Key{Namespace: corev1.NamespaceNodeLease, Name: n.cfg.NodeName})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lease of node %s: %w", n.cfg.NodeName, err)
	}
	return o, nil
}
