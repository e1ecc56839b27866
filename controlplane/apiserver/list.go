package apiserver

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// listPage is one page of a list: what goes over the wire.
type listPage struct {
	items   []*store.Item
	version string
	token   string
	// remaining is how many objects follow; nil where nobody has counted.
	remaining *int64
}

// list answers a LIST from a snapshot.
func (s *Server) list(x *exchange, r *schema.Resource) error {
	out, err := negotiate(x.r, allowFor(r))
	if err != nil {
		return err
	}
	o, err := parseListOptions(r, &x.route, x.r.URL.Query())
	if err != nil {
		return err
	}
	p, err := s.selectPage(x.r.Context(), r, o)
	if err != nil {
		return err
	}
	return s.writeList(x, r, out, p)
}

// selectPage finds the state that the options ask for and picks the objects.
func (s *Server) selectPage(ctx context.Context, r *schema.Resource, o *listOptions) (*listPage, error) {
	if o.token != "" {
		return s.continuePage(r, o)
	}
	exact := o.match == metav1.ResourceVersionMatchExact || o.match == "" && o.limit > 0 && o.version > 0
	if err := s.reach(ctx, o.version); err != nil {
		return nil, err
	}
	snap := s.cfg.Store.Snapshot(r)
	if exact && o.version < snap.Version() {
		if old, ok := s.pages.find(r, o.version, time.Now()); ok {
			return s.cut(r, old, schema.Key{}, o), nil
		}
		return s.past(r, snap, o)
	}
	return s.cut(r, snap, schema.Key{}, o), nil
}

// reach waits for a version that a client has seen elsewhere.
func (s *Server) reach(ctx context.Context, v schema.ResourceVersion) error {
	if s.cfg.Store.Version() >= v {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := s.cfg.Store.WaitFor(ctx, v); err != nil {
		return errTooLargeVersion(v, s.cfg.Store.Version())
	}
	return nil
}

// continuePage returns the page after the one that a token came with.
func (s *Server) continuePage(r *schema.Resource, o *listOptions) (*listPage, error) {
	if !o.any {
		return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	v, from, err := decodeToken(o.token)
	if err != nil {
		return nil, err
	}
	if v < 0 {
		return s.cut(r, s.cfg.Store.Snapshot(r), from, o), nil
	}
	snap := s.cfg.Store.Snapshot(r)
	if snap.Version() != schema.ResourceVersion(v) {
		var ok bool
		if snap, ok = s.pages.find(r, schema.ResourceVersion(v), time.Now()); !ok {
			return nil, errPagesGone(from)
		}
	}
	return s.cut(r, snap, from, o), nil
}

// cut picks the objects of one page out of a snapshot, from a key on.
func (s *Server) cut(r *schema.Resource, snap store.Snapshot, from schema.Key, o *listOptions) *listPage {
	p := &listPage{version: snap.Version().String()}
	f := &o.filter
	if f.name != "" && (f.namespace != "" || !r.Namespaced) && from == (schema.Key{}) {
		if it := snap.Get(schema.Key{Namespace: f.namespace, Name: f.name}); f.matches(it) {
			p.items = []*store.Item{it}
		}
		return p
	}
	if f.node != "" && o.limit == 0 && from == (schema.Key{}) {
		for it := range snap.Index(store.IndexNode, f.node) {
			if f.matches(it) {
				p.items = append(p.items, it)
			}
		}
		return p
	}
	if from.Namespace == "" && f.namespace != "" {
		from.Namespace = f.namespace
	}
	if f.empty() && f.namespace == "" && o.limit == 0 {
		p.items = make([]*store.Item, 0, snap.Len())
	}
	var rest int64
	snap.Ascend(from, func(it *store.Item) bool {
		switch {
		case f.namespace != "" && it.Key.Namespace != f.namespace:
			return false
		case o.limit > 0 && int64(len(p.items)) == o.limit:
			rest++
			return f.empty() // others are not counted
		case f.matches(it):
			p.items = append(p.items, it)
		}
		return true
	})
	if rest > 0 {
		s.pages.keep(r, snap, time.Now())
		p.token = encodeToken(int64(snap.Version()), p.items[len(p.items)-1].Key)
		if f.empty() {
			p.remaining = &rest
		}
	}
	return p
}

// past returns the state at an exact version by undoing the events since.
func (s *Server) past(r *schema.Resource, now store.Snapshot, o *listOptions) (*listPage, error) {
	w, err := s.cfg.Store.Watch(r, o.version)
	if errors.Is(err, store.ErrExpired) {
		return nil, errExpired(o.version)
	}
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	var since []*store.Event
	for w.Progress() < now.Version() {
		batch, ok := <-w.Events()
		if !ok {
			return nil, errExpired(o.version)
		}
		since = append(since, batch...)
	}
	was := map[schema.Key]*store.Item{} // nil: did not exist
	for i := len(since) - 1; i >= 0; i-- {
		if e := since[i]; e.Version() <= now.Version() {
			was[e.Item.Key] = e.Prev
		}
	}
	return &listPage{version: o.version.String(), items: undo(now, was, &o.filter)}, nil
}

// undo puts the states in was in the place of those of a snapshot.
func undo(now store.Snapshot, was map[schema.Key]*store.Item, f *filter) []*store.Item {
	var items []*store.Item
	for it := range now.All() {
		if _, changed := was[it.Key]; !changed && f.matches(it) {
			items = append(items, it)
		}
	}
	for _, it := range was {
		if f.matches(it) {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b *store.Item) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return items
}

// metadata is the ListMeta of the page as JSON.
func (p *listPage) metadata() []byte {
	b := append([]byte(`{"resourceVersion":`), strconv.Quote(p.version)...)
	if p.token != "" {
		b = append(b, `,"continue":`...)
		b = append(b, strconv.Quote(p.token)...)
	}
	if p.remaining != nil {
		b = append(b, `,"remainingItemCount":`...)
		b = strconv.AppendInt(b, *p.remaining, 10)
	}
	return append(b, '}')
}

// writeList writes a page in the encoding and the shape that were negotiated.
func (s *Server) writeList(x *exchange, r *schema.Resource, out output, p *listPage) error {
	include, err := includeObject(x.r)
	if err != nil {
		return err
	}
	b := newBody(x, http.StatusOK, out)
	switch {
	case out.table():
		writeTable(b, r, p.items, p.metadata(), out.Convert.Version, include, true)
	case out.partial() && out.Media == mediaProtobuf:
		writePartialProtobufList(b, out.Convert.Version, p)
	case out.partial():
		writePartialJSONList(b, out.Convert.Version, p)
	case out.Media == mediaProtobuf:
		writeProtobufList(b, r, p)
	default:
		writeJSONList(b, r, p)
	}
	b.close()
	return nil
}
