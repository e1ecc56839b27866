package nodeagent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/admit"
	"github.com/writ-os/writ/nodeagent/volume"
	"github.com/writ-os/writ/schema"
)

// runtimeHandler is the one handler of runtime classes that a node has.
const runtimeHandler = "runc"

// admit says why this node cannot give a pod what it asks for.
func (a *Agent) admit(ctx context.Context, pod *corev1.Pod) (*admit.Refusal, error) {
	p := admit.Pod{Pod: pod}
	if class := pod.Spec.RuntimeClassName; class != nil && *class != "" {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		c, err := client.Get[*nodev1.RuntimeClass](ctx, a.cfg.Client, schema.Key{Name: *class})
		if apierrors.IsNotFound(err) {
			return &admit.Refusal{Reason: admit.ReasonField, Message: fmt.Sprintf("Pod was rejected: spec.runtimeClassName: RuntimeClass %q not found", *class)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read runtime class: %w", err)
		}
		p.Handler = c.Handler
	}
	return admit.Admit(admit.Node{
		Handlers: []string{runtimeHandler}, RecursiveReadOnly: volume.RecursiveReadOnly(),
		Claims: a.cfg.Claim != nil, UnsafeSysctls: a.cfg.AllowedUnsafeSysctls,
	}, p), nil
}

// AnnotationMetadata, on a Namespace with the value "allow", lets its pods reach
// link-local addresses off the node: the metadata service of a cloud, which gives
// the credentials of the machine to whoever asks.
const AnnotationMetadata = "writ.dev/metadata-egress"

// askLimit bounds what a pod that starts asks the server: it may be away.
const askLimit = 3 * time.Second

// metadata says whether the pods of a namespace may reach link-local addresses;
// nil when the server cannot be asked: those that could still can, new ones not.
func (a *Agent) metadata(ctx context.Context, namespace string) *bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	ns, err := client.Get[*corev1.Namespace](ctx, a.cfg.Client, schema.Key{Name: namespace})
	if err != nil {
		a.log.Info("read namespace of a pod, for metadata services", "namespace", namespace, "err", err)
		return nil
	}
	return new(ns.Annotations[AnnotationMetadata] == "allow")
}
