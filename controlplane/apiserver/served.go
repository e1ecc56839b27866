package apiserver

import (
	"github.com/writ-os/writ/schema"
)

// served is everything that follows from what is served at one moment: the
// catalog, and what other servers have. It is made when a request first needs
// it and replaced when either has changed.
type served struct {
	catalog   *schema.Catalog
	changed   <-chan struct{} // of the aggregated versions; nil: never
	discovery *discovery
	views     viewSet
	openapi   openapiDocs
}

// served returns what is served now.
func (s *Server) served() *served {
	now := s.current.Load()
	if now != nil && now.catalog == s.cfg.Catalog.Load() && !isClosed(now.changed) {
		return now
	}
	s.building.Lock()
	defer s.building.Unlock()
	now = s.current.Load()
	c := s.cfg.Catalog.Load()
	if now != nil && now.catalog == c && !isClosed(now.changed) {
		return now
	}
	next := &served{catalog: c}
	var others []AggregatedVersion
	if s.cfg.Aggregate != nil {
		others, next.changed = s.cfg.Aggregate.Versions()
	}
	next.discovery = newDiscovery(c, others)
	next.openapi.aggregated, next.openapi.custom = others, c.Custom()
	if now != nil {
		next.views.keep(&now.views, c)
	}
	s.current.Store(next)
	return next
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
