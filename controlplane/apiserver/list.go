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
	v := x.now.views.of(r)
	o.filter.show = v.show(x.r.Context())
	p, err := s.selectPage(x.r.Context(), r, o)
	if err == nil {
		err = o.filter.err
	}
	if err != nil {
		return err
	}
	if p.items, err = v.all(x.r.Context(), p.items); err != nil {
		return err
	}
	return s.writeList(x, r, out, p)
}

// selectPage finds the state that the options ask for and picks the objects.
func (s *Server) selectPage(ctx context.Context, r *schema.Resource, o *listOptions) (*listPage, error) {
	// One object has no pages: a token with its name is ignored, as upstream
	// ignores it.
	if o.token != "" && !o.filter.one(r) {
		return s.continuePage(ctx, r, o)
	}
	exact := o.match == metav1.ResourceVersionMatchExact || o.match == "" && o.limit > 0 && o.version > 0
	if err := s.asked(ctx, o.latest, o.version); err != nil {
		return nil, err
	}
	snap := s.cfg.Store.Snapshot(r)
	if exact && o.version < snap.Version() {
		if old, ok := s.pages.find(r.Stored(), o.version, time.Now()); ok {
			return s.page(r, old, schema.Key{}, o), nil
		}
		return s.past(ctx, r, snap, o)
	}
	return s.cut(r, page{snapshot: snap}, schema.Key{}, o), nil
}

// asked waits until the copy holds what a client asks for: the latest state, or
// a version that it has seen.
func (s *Server) asked(ctx context.Context, latest bool, v schema.ResourceVersion) error {
	if latest {
		return s.cfg.Store.Current(ctx)
	}
	return s.reach(ctx, v)
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

// continuePage returns the page after the one that a token came with. A token
// with any version below 0 goes on in the newest state, as upstream's.
func (s *Server) continuePage(ctx context.Context, r *schema.Resource, o *listOptions) (*listPage, error) {
	v, from, err := decodeToken(o.token)
	if err != nil {
		return nil, err
	}
	if !o.any {
		return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if v < 0 {
		if err := s.cfg.Store.Current(ctx); err != nil {
			return nil, err
		}
		return s.cut(r, page{snapshot: s.cfg.Store.Snapshot(r)}, from, o), nil
	}
	if err := s.reach(ctx, schema.ResourceVersion(v)); err != nil {
		return nil, err
	}
	snap := s.cfg.Store.Snapshot(r)
	if snap.Version() == schema.ResourceVersion(v) {
		return s.cut(r, page{snapshot: snap}, from, o), nil
	}
	pg, ok := s.pages.find(r.Stored(), schema.ResourceVersion(v), time.Now())
	if ok {
		return s.page(r, pg, from, o), nil
	}
	if !s.cfg.Store.Alone() { // another server has cut the page before, and keeps the state
		if items, err := s.asOf(ctx, r, schema.ResourceVersion(v), snap); err == nil {
			return s.cutPast(r, page{past: items, version: schema.ResourceVersion(v)}, from, o), nil
		}
	}
	return nil, errPagesGone(from)
}

// page cuts a page out of a state that was kept.
func (s *Server) page(r *schema.Resource, pg page, from schema.Key, o *listOptions) *listPage {
	if pg.past != nil {
		return s.cutPast(r, pg, from, o)
	}
	return s.cut(r, pg, from, o)
}

// cut picks the objects of one page out of a snapshot, from a key on.
func (s *Server) cut(r *schema.Resource, pg page, from schema.Key, o *listOptions) *listPage {
	snap, f := pg.snapshot, &o.filter
	p := &listPage{version: snap.Version().String()}
	if f.one(r) && from == (schema.Key{}) {
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
		s.pages.keep(r.Stored(), snap.Version(), pg, time.Now())
		p.token = encodeToken(int64(snap.Version()), p.items[len(p.items)-1].Key)
		if f.empty() {
			p.remaining = &rest
		}
	}
	return p
}

// past returns a page of the state at an exact version by undoing the events
// since.
func (s *Server) past(ctx context.Context, r *schema.Resource, now store.Snapshot, o *listOptions) (*listPage, error) {
	items, err := s.asOf(ctx, r, o.version, now)
	if err != nil {
		return nil, err
	}
	return s.cutPast(r, page{past: items, version: o.version}, schema.Key{}, o), nil
}

// asOf are the objects as they were at a version, by key.
func (s *Server) asOf(ctx context.Context, r *schema.Resource, v schema.ResourceVersion, now store.Snapshot) ([]*store.Item, error) {
	since, err := s.since(ctx, r, v, now.Version())
	if err != nil {
		return nil, err
	}
	was := map[schema.Key]*store.Item{} // nil: did not exist
	for i := len(since) - 1; i >= 0; i-- {
		was[since[i].Item.Key] = since[i].Prev
	}
	return undo(now, was), nil
}

// cutPast is cut for a state that has been made anew.
func (s *Server) cutPast(r *schema.Resource, pg page, from schema.Key, o *listOptions) *listPage {
	p := &listPage{version: pg.version.String()}
	var rest int64
	for _, it := range pg.past {
		switch {
		case compareKeys(it.Key, from) < 0 || !o.filter.matches(it):
		case o.limit > 0 && int64(len(p.items)) == o.limit:
			rest++
		default:
			p.items = append(p.items, it)
		}
	}
	if rest > 0 {
		s.pages.keep(r.Stored(), pg.version, pg, time.Now())
		p.token = encodeToken(int64(pg.version), p.items[len(p.items)-1].Key)
		if o.filter.empty() {
			p.remaining = &rest
		}
	}
	return p
}

// since returns the events of a resource after one version and up to another.
func (s *Server) since(ctx context.Context, r *schema.Resource, from, to schema.ResourceVersion) ([]*store.Event, error) {
	all, err := s.cfg.Store.Between(ctx, r, from, to)
	if errors.Is(err, store.ErrExpired) || errors.Is(err, store.ErrNotKept) || errors.Is(err, store.ErrClosed) {
		return nil, errPastGone()
	}
	return all, err
}

// undo puts the states in was in the place of those of a snapshot, and returns
// all by key.
func undo(now store.Snapshot, was map[schema.Key]*store.Item) []*store.Item {
	items := make([]*store.Item, 0, now.Len()+len(was))
	for it := range now.All() {
		if _, changed := was[it.Key]; !changed {
			items = append(items, it)
		}
	}
	for _, it := range was {
		if it != nil {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b *store.Item) int { return compareKeys(a.Key, b.Key) })
	return items
}

func compareKeys(a, b schema.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
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
	include, err := metav1.IncludeMetadata, checkShape(r, out, true)
	if err == nil && out.table() {
		include, err = includeObject(x.r)
	}
	if err != nil {
		return err
	}
	b := newBody(x, http.StatusOK, out)
	switch {
	case out.table():
		writeTable(b, s.tableOf(r), p.items, p.metadata(), out.Convert.Version, include, true)
	case out.partial() && out.Media == mediaProtobuf:
		writePartialProtobufList(b, out.Convert.Version, p)
	case out.partial():
		writePartialJSONList(b, out.Convert.Version, p)
	case out.Media == mediaProtobuf:
		writeProtobufList(b, r, p)
	case r.Custom != nil:
		writeCustomList(b, r, p)
	default:
		writeJSONList(b, r, p)
	}
	b.close()
	return nil
}
