package aggregate

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/apiserver"
)

// InProcess is a group and version that a part of this process serves, as if it
// were another server: metrics.k8s.io. An APIService that names a Service takes
// it away.
type InProcess struct {
	Resources *metav1.APIResourceList
	// Handler serves /apis/<group>/<version> and below.
	Handler                        http.Handler
	GroupPriority, VersionPriority int32
}

// groupVersion is which it is.
func (p *InProcess) groupVersion() kschema.GroupVersion {
	gv, err := kschema.ParseGroupVersion(p.Resources.GroupVersion)
	if err != nil {
		return kschema.GroupVersion{} // nobody asks for it
	}
	return gv
}

// version is what discovery shows of it.
func (p *InProcess) version() apiserver.AggregatedVersion {
	gv := p.groupVersion()
	return apiserver.AggregatedVersion{Group: gv.Group, GroupPriority: p.GroupPriority, VersionPriority: p.VersionPriority,
		Discovery: *aggregated(p.Resources, gv)}
}

// inProcess returns the part of this process that serves a group and version;
// nil when there is none.
func (a *Aggregator) inProcess(gv kschema.GroupVersion) *InProcess {
	for i := range a.cfg.InProcess {
		if a.cfg.InProcess[i].groupVersion() == gv {
			return &a.cfg.InProcess[i]
		}
	}
	return nil
}
