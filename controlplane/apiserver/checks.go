package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// checks are the lines of a probe. A server that has not loaded its objects, or
// that is about to end, lives but is not ready.
func (s *Server) checks(probe string) []Check {
	all := []Check{
		{Name: "ping", Live: true, Check: fine},
		{Name: "log", Live: true, Check: fine},
		{Name: "etcd", Check: s.storeReady},
		{Name: "etcd-readiness", Check: s.storeReady},
		{Name: "informer-sync", Check: s.storeReady},
		{Name: "shutdown", Check: s.notStopping},
	}
	all = append(all, s.cfg.Checks...)
	if probe == "readyz" {
		return all
	}
	all[2] = Check{Name: "etcd", Live: true, Check: fine} // it loads: that is no reason to be killed
	var live []Check
	for _, c := range all {
		if c.Live {
			live = append(live, c)
		}
	}
	return live
}

func fine(context.Context) error { return nil }

func (s *Server) storeReady(ctx context.Context) error {
	select {
	case <-s.cfg.Store.Ready():
		return s.cfg.Store.Current(ctx) // one of several may be cut off from the others
	default:
		return errors.New("the store is still loading")
	}
}

func (s *Server) notStopping(context.Context) error { return s.life.Err() }

// writeJSON answers with a small document for people and scripts.
func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n'))
}
