// Package clusterinfo tells machines that are about to join where the API server
// is and which authority it has: the ConfigMap kube-public/cluster-info, by
// kubeadm's convention. They believe it for the signature that the controller
// bootstrapsigner puts beside it.
//
// Watches the Namespaces kube-system and kube-public and what it makes. Owns the
// Namespace kube-public, and in it cluster-info, but for a kubeconfig that
// somebody has written there: the address may be a load balancer's. An address
// that the controller wrote itself is replaced when that server is there no more.
// Owns the Role
// and the RoleBinding kubeadm:bootstrap-signer-clusterinfo, by which everybody
// may read cluster-info: there is no secret in it. One that was changed stays as
// it is, one that was deleted comes back.
package clusterinfo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// reader is the Role by which everybody may read, and its binding.
const reader = "kubeadm:bootstrap-signer-clusterinfo"

var (
	info   = schema.Key{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}
	access = schema.Key{Namespace: metav1.NamespacePublic, Name: reader}
	public = schema.Key{Name: metav1.NamespacePublic}
)

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// Server is the URL of the API server, for other machines.
	Server string
	// Inside is the URL that pods alone reach. It is published while no other
	// machine reaches the server, and replaced once one does.
	Inside string
	// Servers are the URLs of all servers that are there, this one among them;
	// nil when it is alone. Leases that are not renewed are no events, so that
	// they are looked at Again and again.
	Servers func() []string
	Again   time.Duration
	// CA is the cluster's authority in PEM.
	CA []byte
}

// publishedServer is the annotation of cluster-info with the address that this
// controller wrote: another one is somebody's.
const publishedServer = "writ.dev/published-server"

// Controller publishes.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events call for a look. There is one key.
func (c *Controller) Watches() []controller.Watch {
	of := func(r *schema.Resource, keys ...schema.Key) controller.Watch {
		return controller.Watch{Resource: r, Map: func(ev client.Event) []schema.Key {
			for _, k := range keys {
				if schema.KeyOf(ev.Object) == k {
					return []schema.Key{info}
				}
			}
			return nil
		}}
	}
	return []controller.Watch{
		of(schema.ResourceFor[*corev1.Namespace](), public, schema.Key{Name: metav1.NamespaceSystem}),
		of(schema.ResourceFor[*corev1.ConfigMap](), info),
		of(schema.ResourceFor[*rbacv1.Role](), access),
		of(schema.ResourceFor[*rbacv1.RoleBinding](), access),
	}
}

// Reconcile creates what is missing.
func (c *Controller) Reconcile(ctx context.Context, _ schema.Key) (controller.Result, error) {
	ns, ok := client.Cached[*corev1.Namespace](c.cfg.Cache, public)
	if !ok {
		ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: public.Name}}
		if err := create(ctx, c, ns); err != nil {
			return controller.Result{}, err
		}
	} else if ns.DeletionTimestamp != nil {
		return controller.Result{}, nil // its end is an event
	}
	if err := c.publish(ctx); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: c.cfg.Again}, c.allow(ctx)
}

// allow has everybody read what is published.
func (c *Controller) allow(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: access.Namespace, Name: access.Name}
	if _, ok := client.Cached[*rbacv1.Role](c.cfg.Cache, access); !ok {
		err := create(ctx, c, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{info.Name}}}})
		if err != nil {
			return err
		}
	}
	if _, ok := client.Cached[*rbacv1.RoleBinding](c.cfg.Cache, access); ok {
		return nil
	}
	return create(ctx, c, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reader},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Anonymous}},
	})
}

// publish writes a kubeconfig that names nobody, where one is missing or
// outdated.
func (c *Controller) publish(ctx context.Context) error {
	live, ok := client.Cached[*corev1.ConfigMap](c.cfg.Cache, info)
	if ok && !c.outdated(live) {
		return nil
	}
	data, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{
		"": {Server: c.cfg.Server, CertificateAuthorityData: c.cfg.CA}}})
	if err != nil {
		return fmt.Errorf("encode kubeconfig of config map %s: %w", info, err)
	}
	if !ok {
		return create(ctx, c, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: info.Namespace, Name: info.Name, Annotations: map[string]string{publishedServer: c.cfg.Server}},
			Data:       map[string]string{bootstrapapi.KubeConfigKey: string(data)},
		})
	}
	next := live.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, publishedServer, c.cfg.Server)
	next.Data = map[string]string{}
	maps.Copy(next.Data, live.Data)
	next.Data[bootstrapapi.KubeConfigKey] = string(data)
	if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update config map %s: %w", info, err)
	}
	return nil
}

// outdated says whether the kubeconfig is to be written anew.
func (c *Controller) outdated(live *corev1.ConfigMap) bool {
	text := live.Data[bootstrapapi.KubeConfigKey]
	if text == "" {
		return true
	}
	cfg, err := clientcmd.Load([]byte(text))
	if err != nil || len(cfg.Clusters) != 1 || cfg.Clusters[""] == nil {
		return false // somebody's
	}
	var servers []string
	if c.cfg.Servers != nil {
		servers = c.cfg.Servers()
	}
	return replace(cfg.Clusters[""].Server, live.Annotations[publishedServer], c.cfg.Server, c.cfg.Inside, servers)
}

// replace says whether a published address gives way to that of this server:
// it is of the time when no other machine reached the server; it was published
// before addresses were noted; or it was noted and no server is there any more.
func replace(published, noted, server, inside string, servers []string) bool {
	switch published {
	case server:
		return noted != server
	case inside:
		return true
	case noted:
		return len(servers) > 0 && !slices.Contains(servers, published)
	}
	return false
}

// create creates what somebody else may have created meanwhile.
func create[T schema.Object](ctx context.Context, c *Controller, o T) error {
	_, err := client.Create(ctx, c.cfg.Client, o, client.WriteOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("create %v %s: %w", schema.ResourceFor[T](), schema.KeyOf(o), err)
	}
	return nil
}
