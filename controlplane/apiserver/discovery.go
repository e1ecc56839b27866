package apiserver

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
)

// discovery tells clients which resources there are. The table does not change
// while the process lives, and so every document is made once.
type discovery struct {
	groups []group
	served map[kschema.GroupVersionResource]map[string]bool // subresources; "" is the resource itself

	mu   sync.Mutex
	docs map[string]*document
}

// group is an API group; each of ours has one version.
type group struct {
	name, version string
	resources     []*schema.Resource
	virtuals      []*virtual
}

func (g group) groupVersion() string {
	return kschema.GroupVersion{Group: g.name, Version: g.version}.String()
}

// document is an encoded answer of discovery.
type document struct {
	data []byte
	etag string
}

func newDiscovery() *discovery {
	d := &discovery{docs: map[string]*document{}, served: map[kschema.GroupVersionResource]map[string]bool{}}
	at := map[kschema.GroupVersion]int{}
	find := func(r *schema.Resource) *group {
		gv := r.GVK().GroupVersion()
		i, ok := at[gv]
		if !ok {
			i = len(d.groups)
			at[gv] = i
			d.groups = append(d.groups, group{name: r.Group, version: r.Version})
		}
		return &d.groups[i]
	}
	for _, r := range schema.Resources {
		g := find(r)
		g.resources = append(g.resources, r)
		d.served[r.GVR()] = map[string]bool{"": true}
		for _, sub := range subresources(r) {
			d.served[r.GVR()][sub.name] = true
		}
	}
	for _, v := range virtuals {
		g := find(v.Resource)
		g.virtuals = append(g.virtuals, v)
		d.served[v.GVR()] = map[string]bool{"": true}
	}
	return d
}

// serves says whether a route names a resource, and a subresource, that exist.
func (d *discovery) serves(rt *route) bool {
	gvr := kschema.GroupVersionResource{Group: rt.Group, Version: rt.Version, Resource: rt.Plural}
	return rt.IsResource && d.served[gvr][rt.Subresource]
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
	slices.SortFunc(subs, func(a, b subresource) int { return strings.Compare(a.name, b.name) })
	return subs
}

// serve answers with a document that is made at the first request.
func (d *discovery) serve(x *exchange, name string, out output, contentType string, make func() runtime.Object) {
	doc := d.doc(name+" "+out.Media.String(), out.Media, make)
	h := x.Header()
	h.Set("Content-Type", contentType)
	h.Set("Vary", "Accept")
	h.Set("Etag", doc.etag)
	h.Set("Cache-Control", "public")
	if x.r.Header.Get("If-None-Match") == doc.etag {
		x.WriteHeader(http.StatusNotModified)
		return
	}
	data := doc.data
	if out.Pretty && out.Media == mediaJSON {
		b := &body{out: out}
		data = b.transform(data)
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(data)
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
	for _, g := range s.discovery.groups {
		switch {
		case core && g.name == "" && len(parts) == 2 && parts[1] == g.version,
			!core && len(parts) == 3 && parts[1] == g.name && g.name != "" && parts[2] == g.version:
			s.discoverResources(x, g)
			return true
		case !core && g.name != "" && len(parts) == 2 && parts[1] == g.name:
			s.discoverGroup(x, g)
			return true
		}
	}
	return false
}

// allowDiscovery accepts the aggregated forms.
func allowDiscovery(_ media, c conversion) bool {
	return c == conversion{} || c.Kind == "APIGroupDiscoveryList" && c.Group == discoveryv2.GroupName && (c.Version == "v2" || c.Version == "v2beta1")
}

// discoverGroups answers /api and /apis, in one document for all resources
// when the client takes it.
func (s *Server) discoverGroups(x *exchange, core bool) {
	out, err := negotiate(x.r, allowDiscovery)
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	name := "apis"
	if core {
		name = "api"
	}
	if v := out.Convert.Version; v != "" {
		contentType := out.Media.String() + ";g=apidiscovery.k8s.io;v=" + v + ";as=APIGroupDiscoveryList"
		s.discovery.serve(x, name+" "+v, out, contentType, func() runtime.Object { return s.discovery.aggregated(v, core) })
		return
	}
	s.discovery.serve(x, name, out, out.Media.String(), func() runtime.Object {
		if core {
			return &metav1.APIVersions{
				TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
				ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
			}
		}
		l := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, g := range s.discovery.groups {
			if g.name != "" {
				l.Groups = append(l.Groups, g.apiGroup())
			}
		}
		return l
	})
}

func (g group) apiGroup() metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: g.groupVersion(), Version: g.version}
	return metav1.APIGroup{Name: g.name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
}

func (s *Server) discoverGroup(x *exchange, g group) {
	out, err := negotiate(x.r, allowPlain)
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	s.discovery.serve(x, "apis/"+g.name, out, out.Media.String(), func() runtime.Object {
		o := g.apiGroup()
		o.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return &o
	})
}

// discoverResources answers /api/v1 and /apis/<group>/<version>.
func (s *Server) discoverResources(x *exchange, g group) {
	out, err := negotiate(x.r, allowPlain)
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	s.discovery.serve(x, "resources "+g.groupVersion(), out, out.Media.String(), func() runtime.Object { return g.resourceList() })
}
