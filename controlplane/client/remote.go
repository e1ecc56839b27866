package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// remoteTimeout bounds every call but watches.
const remoteTimeout = 30 * time.Second

// RemoteConfig says where the server is and who calls.
type RemoteConfig struct {
	// Kubeconfig is the path of a kubeconfig file. Either this or Config.
	Kubeconfig string
	Config     *rest.Config
	// FieldManager of writes that name none. Default "writ".
	FieldManager string
	// UserAgent is who the server's log says has called. Default: the manager.
	UserAgent string
}

// RemoteClient talks to an API server over HTTPS: protobuf for the kinds of
// Kubernetes, JSON for those of writ.dev and for custom resources, no throttle
// of its own.
type RemoteClient struct {
	config  *rest.Config
	http    *http.Client
	manager string

	mu    sync.Mutex
	rests map[restKey]*rest.RESTClient
}

var _ Interface = (*RemoteClient)(nil)

// restKey is what a REST client is for: the kinds of a group and version that
// have Go types, or those that have none.
type restKey struct {
	apiVersion string
	dynamic    bool
}

// NewRemote returns a client of a server. It opens no connection yet.
func NewRemote(cfg RemoteConfig) (*RemoteClient, error) {
	config := cfg.Config
	if config == nil {
		loaded, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("load kubeconfig %s: %w", cfg.Kubeconfig, err)
		}
		config = loaded
	}
	if cfg.FieldManager == "" {
		cfg.FieldManager = "writ"
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = cmp.Or(cfg.UserAgent, cfg.FieldManager)
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build HTTP client: %w", err)
	}
	return &RemoteClient{config: config, http: h, manager: cfg.FieldManager, rests: map[restKey]*rest.RESTClient{}}, nil
}

// rest returns the REST client of the resource's group and version.
func (c *RemoteClient) rest(r *schema.Resource) (*rest.RESTClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := restKey{r.APIVersion(), r.Custom != nil || dynamic(r)}
	if rc := c.rests[key]; rc != nil {
		return rc, nil
	}
	config := rest.CopyConfig(c.config)
	gv := r.GVK().GroupVersion()
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if r.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = schema.Codecs.WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if key.dynamic {
		config.NegotiatedSerializer = unstructuredscheme.NewUnstructuredNegotiatedSerializer()
	}
	if key.dynamic || r.Group == v1alpha1.GroupVersion.Group {
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	}
	rc, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("build client of %s: %w", gv, err)
	}
	c.rests[key] = rc
	return rc, nil
}

// dynamic says whether the objects of a resource have no Go type.
func dynamic(r *schema.Resource) bool {
	_, ok := r.New().(*unstructured.Unstructured)
	return ok
}

// request begins a request for an object, or for a collection where name is
// empty.
func (c *RemoteClient) request(verb string, r *schema.Resource, key schema.Key, sub string) (*rest.Request, error) {
	rc, err := c.rest(r)
	if err != nil {
		return nil, err
	}
	req := rc.Verb(verb).NamespaceIfScoped(key.Namespace, r.Namespaced && key.Namespace != "").Resource(r.Plural)
	if key.Name != "" {
		req = req.Name(key.Name)
	}
	if sub != "" {
		req = req.SubResource(sub)
	}
	return req, nil
}

// Get implements Reader.
func (c *RemoteClient) Get(ctx context.Context, r *schema.Resource, key schema.Key) (schema.Object, error) {
	req, err := c.request(http.MethodGet, r, key, "")
	if err != nil {
		return nil, err
	}
	return do(ctx, r, req, nil)
}

// List implements Reader.
func (c *RemoteClient) List(ctx context.Context, r *schema.Resource, o ListOptions) (List, error) {
	req, err := c.request(http.MethodGet, r, schema.Key{Namespace: o.Namespace}, "")
	if err != nil {
		return List{}, err
	}
	opts := selectors(o)
	list := r.NewList()
	if err := req.VersionedParams(&opts, metav1.ParameterCodec).Timeout(remoteTimeout).Do(ctx).Into(list.(runtime.Object)); err != nil {
		return List{}, err
	}
	out := List{ResourceVersion: list.GetResourceVersion()}
	err = meta.EachListItem(list.(runtime.Object), func(item runtime.Object) error {
		out.Items = append(out.Items, named(r, item.(schema.Object)))
		return nil
	})
	sortByKey(out.Items)
	return out, err
}

func selectors(o ListOptions) metav1.ListOptions {
	var opts metav1.ListOptions
	if o.Labels != nil {
		opts.LabelSelector = o.Labels.String()
	}
	if o.Fields != nil {
		opts.FieldSelector = o.Fields.String()
	}
	return opts
}

// Create implements Writer.
func (c *RemoteClient) Create(ctx context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error) {
	key := schema.Key{Namespace: o.GetNamespace()}
	if w.Subresource != "" {
		key = w.Key
	}
	req, err := c.request(http.MethodPost, r, key, w.Subresource)
	if err != nil {
		return nil, err
	}
	opts := metav1.CreateOptions{FieldManager: c.name(w), DryRun: dryRun(w.DryRun), FieldValidation: w.FieldValidation}
	return do(ctx, r, req.VersionedParams(&opts, metav1.ParameterCodec).Body(o), o)
}

// Update implements Writer.
func (c *RemoteClient) Update(ctx context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error) {
	req, err := c.request(http.MethodPut, r, schema.KeyOf(o), w.Subresource)
	if err != nil {
		return nil, err
	}
	opts := metav1.UpdateOptions{FieldManager: c.name(w), DryRun: dryRun(w.DryRun), FieldValidation: w.FieldValidation}
	return do(ctx, r, req.VersionedParams(&opts, metav1.ParameterCodec).Body(o), o)
}

// Patch implements Writer.
func (c *RemoteClient) Patch(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w WriteOptions) (schema.Object, error) {
	req, err := c.request(http.MethodPatch, r, key, w.Subresource)
	if err != nil {
		return nil, err
	}
	opts := metav1.PatchOptions{FieldManager: c.name(w), DryRun: dryRun(w.DryRun), FieldValidation: w.FieldValidation}
	if t == types.ApplyPatchType {
		opts.Force = &w.Force
	}
	return do(ctx, r, req.VersionedParams(&opts, metav1.ParameterCodec).SetHeader("Content-Type", string(t)).Body(data), nil)
}

// Delete implements Writer.
func (c *RemoteClient) Delete(ctx context.Context, r *schema.Resource, key schema.Key, d DeleteOptions) error {
	req, err := c.request(http.MethodDelete, r, key, "")
	if err != nil {
		return err
	}
	opts := &metav1.DeleteOptions{GracePeriodSeconds: d.GracePeriodSeconds, Preconditions: d.Preconditions, DryRun: dryRun(d.DryRun)}
	if d.Propagation != "" {
		opts.PropagationPolicy = &d.Propagation
	}
	return req.Body(opts).Timeout(remoteTimeout).Do(ctx).Error()
}

func (c *RemoteClient) name(w WriteOptions) string {
	if w.FieldManager != "" {
		return w.FieldManager
	}
	return c.manager
}

func dryRun(yes bool) []string {
	if yes {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// do sends a request. Where the server answers with no object but a Status (a
// binding), the result is what was sent.
func do(ctx context.Context, r *schema.Resource, req *rest.Request, sent schema.Object) (schema.Object, error) {
	out, err := req.Timeout(remoteTimeout).Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	if o, ok := out.(schema.Object); ok {
		return named(r, o), nil
	}
	return sent, nil
}

// named sets apiVersion and kind, which the codec leaves out of typed objects.
// Subresources answer with other kinds, whose own name is kept.
func named(r *schema.Resource, o schema.Object) schema.Object {
	if own := schema.ResourceOf(o); own != nil {
		r = own
	} else if gvks, _, err := schema.Scheme.ObjectKinds(o); err == nil {
		o.GetObjectKind().SetGroupVersionKind(gvks[0])
		return o
	}
	o.GetObjectKind().SetGroupVersionKind(r.GVK())
	return o
}
