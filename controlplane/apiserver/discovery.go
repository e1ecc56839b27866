package apiserver

import (
	"cmp"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	kversion "k8s.io/apimachinery/pkg/version"

	"github.com/writ-os/writ/controlplane/bootstrap"
	"github.com/writ-os/writ/schema"
)

// discovery tells clients which resources there are. It belongs to one catalog;
// every document is made once.
type discovery struct {
	groups []group
	names  map[kschema.GroupVersionResource]map[string]bool // subresources; "" is the resource itself
	// builtin are the groups that the resource table has kinds of.
	builtin map[string]bool

	mu   sync.Mutex
	docs map[string]*document
}

// group is an API group with its versions, the preferred one first.
type group struct {
	name     string
	priority int32
	versions []*groupVersion
}

// groupVersion is one version of a group: ours, or another server's.
type groupVersion struct {
	group, version string
	priority       int32
	resources      []*schema.Resource
	virtuals       []*virtual
	other          *discoveryv2.APIVersionDiscovery
}

func (v *groupVersion) String() string {
	return kschema.GroupVersion{Group: v.group, Version: v.version}.String()
}

// document is an encoded answer of discovery.
type document struct {
	data []byte
	etag string
}

func newDiscovery(c *schema.Catalog, others []AggregatedVersion) *discovery {
	d := &discovery{docs: map[string]*document{}, names: map[kschema.GroupVersionResource]map[string]bool{}, builtin: map[string]bool{}}
	b := &groupBuilder{at: map[string]int{}}
	for _, r := range c.All() {
		v := b.version(r.Group, r.Version)
		v.resources = append(v.resources, r)
		if r.Custom == nil {
			d.builtin[r.Group] = true
		}
		d.names[r.GVR()] = map[string]bool{"": true}
		for _, sub := range subresources(r) {
			d.names[r.GVR()][sub.name] = true
		}
	}
	for _, q := range virtuals {
		if d.names[q.GVR()] != nil {
			continue // the table has it
		}
		v := b.version(q.Group, q.Version)
		v.virtuals = append(v.virtuals, q)
		d.builtin[q.Group] = true
		d.names[q.GVR()] = map[string]bool{"": true}
	}
	for _, o := range others {
		v := b.version(o.Group, o.Discovery.Version)
		*v = groupVersion{group: o.Group, version: o.Discovery.Version, priority: o.VersionPriority, other: &o.Discovery}
		g := &b.groups[b.at[o.Group]]
		g.priority = max(g.priority, o.GroupPriority)
	}
	d.groups = b.sorted()
	return d
}

// groupBuilder collects the versions of groups.
type groupBuilder struct {
	groups []group
	at     map[string]int
}

func (b *groupBuilder) version(name, version string) *groupVersion {
	i, ok := b.at[name]
	if !ok {
		i = len(b.groups)
		b.at[name] = i
		b.groups = append(b.groups, group{name: name})
	}
	g := &b.groups[i]
	for _, v := range g.versions {
		if v.version == version {
			return v
		}
	}
	v := &groupVersion{group: name, version: version}
	var order int32
	order, v.priority = bootstrap.Priority(kschema.GroupVersion{Group: name, Version: version})
	g.priority = max(g.priority, order)
	g.versions = append(g.versions, v)
	return v
}

// sorted puts groups and versions in the order of upstream: by priority, groups
// of equal priority by name, versions by how stable they are; and the resources
// of each by name.
func (b *groupBuilder) sorted() []group {
	slices.SortFunc(b.groups, func(x, y group) int {
		return cmp.Or(cmp.Compare(y.priority, x.priority), strings.Compare(x.name, y.name))
	})
	for _, g := range b.groups {
		slices.SortFunc(g.versions, func(x, y *groupVersion) int {
			return cmp.Or(cmp.Compare(y.priority, x.priority), kversion.CompareKubeAwareVersionStrings(y.version, x.version))
		})
		for _, v := range g.versions {
			slices.SortFunc(v.resources, func(x, y *schema.Resource) int { return strings.Compare(x.Plural, y.Plural) })
			slices.SortFunc(v.virtuals, func(x, y *virtual) int { return strings.Compare(x.Plural, y.Plural) })
		}
	}
	return b.groups
}

// serves says whether a route names a resource, and a subresource, that exist.
func (d *discovery) serves(rt *route) bool {
	gvr := kschema.GroupVersionResource{Group: rt.Group, Version: rt.Version, Resource: rt.Plural}
	return rt.IsResource && d.names[gvr][rt.Subresource]
}

// find returns a version of a group; nil when there is none.
func (d *discovery) find(name, version string) *groupVersion {
	for _, g := range d.groups {
		for _, v := range g.versions {
			if g.name == name && v.version == version {
				return v
			}
		}
	}
	return nil
}

// subresource is one of a resource's, as discovery shows it.
type subresource struct {
	name  string
	verbs []string
	gvk   kschema.GroupVersionKind // what it speaks, if not the resource's kind
}

var (
	readWrite   = []string{"get", "patch", "update"}
	streamVerbs = []string{"create", "get"}
	proxyVerbs  = []string{"create", "delete", "get", "patch", "update"}
	allVerbs    = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)

// subresources lists the subresources of a resource, sorted by name.
func subresources(r *schema.Resource) []subresource {
	var subs []subresource
	if r.Status {
		subs = append(subs, subresource{name: "status", verbs: readWrite})
	}
	if r.Scale {
		subs = append(subs, subresource{name: "scale", verbs: readWrite, gvk: scaleBody.GVK()})
	}
	for _, name := range r.Subresources {
		sub := subresource{name: name, verbs: []string{"create"}}
		switch name {
		case "log":
			sub.verbs = []string{"get"}
		case "exec":
			sub.verbs, sub.gvk = streamVerbs, kschema.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"}
		case "attach":
			sub.verbs, sub.gvk = streamVerbs, kschema.GroupVersionKind{Version: "v1", Kind: "PodAttachOptions"}
		case "portforward":
			sub.verbs, sub.gvk = streamVerbs, kschema.GroupVersionKind{Version: "v1", Kind: "PodPortForwardOptions"}
		case "proxy":
			sub.verbs, sub.gvk = proxyVerbs, kschema.GroupVersionKind{Version: "v1", Kind: r.Kind + "ProxyOptions"}
		case "ephemeralcontainers", "resize":
			sub.verbs = readWrite
		case "approval":
			sub.verbs = readWrite
		case "finalize":
			sub.verbs = []string{"update"}
		case "binding":
			sub.gvk = bindingBody.GVK()
		case "eviction":
			sub.gvk = evictionBody.GVK()
		case "token":
			sub.gvk = tokenBody.GVK()
		}
		subs = append(subs, sub)
	}
	if r.Custom != nil {
		return subs // status before scale, as upstream
	}
	slices.SortFunc(subs, func(a, b subresource) int { return strings.Compare(a.name, b.name) })
	return subs
}

// serve answers with a document that is made at the first request. Aggregated
// ones carry a hash, so that clients fetch only what has changed.
func (d *discovery) serve(x *exchange, name string, out output, contentType string, make func() runtime.Object) {
	doc := d.doc(name+" "+out.Media.String(), out.Media, make)
	h := x.Header()
	if out.Convert.Kind != "" {
		h.Set("Vary", "Accept")
		h.Set("Etag", doc.etag)
		h.Set("Cache-Control", "public")
		if x.r.Header.Get("If-None-Match") == doc.etag {
			x.WriteHeader(http.StatusNotModified)
			return
		}
	}
	b := newBody(x, http.StatusOK, out)
	h.Set("Content-Type", contentType)
	b.write(doc.data)
}

func (d *discovery) doc(name string, m media, make func() runtime.Object) *document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if doc := d.docs[name]; doc != nil {
		return doc
	}
	o := make()
	data, err := schema.Encode(o, schema.MediaType(m.String()))
	if err != nil {
		data, _ = json.Marshal(o)
	}
	doc := &document{data: data, etag: fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(data)))}
	d.docs[name] = doc
	return doc
}

// discoveryPath answers /api, /apis and below, up to group and version.
func (s *Server) discoveryPath(x *exchange, parts []string) bool {
	core := parts[0] == "api"
	if len(parts) == 1 {
		s.discoverGroups(x, core)
		return true
	}
	d := s.served().discovery
	switch {
	case core && len(parts) == 2:
		if v := d.find("", parts[1]); v != nil {
			s.discoverResources(x, v)
			return true
		}
	case !core && len(parts) == 2:
		for _, g := range d.groups {
			if g.name == parts[1] && g.name != "" {
				s.discoverGroup(x, g)
				return true
			}
		}
	case !core && len(parts) == 3 && parts[1] != "":
		if v := d.find(parts[1], parts[2]); v != nil {
			s.discoverResources(x, v)
			return true
		}
	}
	return false
}

// allowDiscovery accepts the aggregated form. v2beta1 has gone with v1.35.
func allowDiscovery(_ media, c conversion) bool {
	return c == conversion{} || c.Kind == "APIGroupDiscoveryList" && c.Group == discoveryv2.GroupName && c.Version == "v2"
}

// discoverGroups answers /api and /apis, in one document for all resources
// when the client takes it.
func (s *Server) discoverGroups(x *exchange, core bool) {
	out, err := negotiate(x.r, allowDiscovery)
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	d := s.served().discovery
	name := "apis"
	if core {
		name = "api"
	}
	if v := out.Convert.Version; v != "" {
		contentType := out.Media.String() + ";g=apidiscovery.k8s.io;v=" + v + ";as=APIGroupDiscoveryList"
		d.serve(x, name+" "+v, out, contentType, func() runtime.Object { return d.aggregated(v, core) })
		return
	}
	d.serve(x, name, out, out.Media.String(), func() runtime.Object {
		if core {
			return &metav1.APIVersions{
				TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
				ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: x.r.Host}},
			}
		}
		l := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, g := range d.groups {
			if g.name != "" {
				l.Groups = append(l.Groups, g.apiGroup())
			}
		}
		return l
	})
}

func (g group) apiGroup() metav1.APIGroup {
	o := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		o.Versions = append(o.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.version})
	}
	o.PreferredVersion = o.Versions[0]
	return o
}

func (s *Server) discoverGroup(x *exchange, g group) {
	out, err := negotiate(x.r, allowPlain)
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	s.served().discovery.serve(x, "apis/"+g.name, out, out.Media.String(), func() runtime.Object {
		o := g.apiGroup()
		o.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return &o
	})
}

// discoverResources answers /api/v1 and /apis/<group>/<version>.
func (s *Server) discoverResources(x *exchange, v *groupVersion) {
	out, err := negotiate(x.r, allowPlain)
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	s.served().discovery.serve(x, "resources "+v.String(), out, out.Media.String(), func() runtime.Object { return v.resourceList() })
}
