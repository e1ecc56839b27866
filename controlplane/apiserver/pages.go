package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// maxPages bounds how many snapshots are kept for clients that page. A snapshot
// shares everything with the store but what has changed since.
const maxPages = 256

// pages keeps the snapshots that continue tokens refer to, so that all pages of
// a list show one state.
type pages struct {
	life time.Duration

	mu   sync.Mutex
	kept map[pageKey]page
}

type pageKey struct {
	resource *schema.Resource
	version  schema.ResourceVersion
}

// page is a state that pages are cut from: a snapshot, or one of long ago that
// has been made anew.
type page struct {
	snapshot store.Snapshot
	past     []*store.Item // not nil: by key
	version  schema.ResourceVersion
	until    time.Time // zero: not kept yet
}

func newPages(life time.Duration) *pages {
	return &pages{life: life, kept: map[pageKey]page{}}
}

// keep remembers a state for the life of a token. One that is kept already does
// not live longer for being read: history goes on.
func (p *pages) keep(r *schema.Resource, version schema.ResourceVersion, pg page, now time.Time) {
	if !pg.until.IsZero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := pageKey{}
	for k, v := range p.kept {
		if now.After(v.until) {
			delete(p.kept, k)
		} else if oldest.resource == nil || v.until.Before(p.kept[oldest].until) {
			oldest = k
		}
	}
	k := pageKey{r, version}
	if _, ok := p.kept[k]; !ok && len(p.kept) >= maxPages {
		delete(p.kept, oldest)
	}
	pg.until = now.Add(p.life)
	p.kept[k] = pg
}

// find returns a state that is kept.
func (p *pages) find(r *schema.Resource, v schema.ResourceVersion, now time.Time) (page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pg, ok := p.kept[pageKey{r, v}]
	return pg, ok && !now.After(pg.until)
}

// continueToken is upstream's: clients treat it as opaque. A version of -1
// continues in whatever state there is.
type continueToken struct {
	APIVersion string `json:"v"`
	Version    int64  `json:"rv"`
	Start      string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// encodeToken makes the token that continues after a key.
func encodeToken(v int64, after schema.Key) string {
	b, err := json.Marshal(continueToken{tokenVersion, v, after.Namespace + "/" + after.Name + "\x00"})
	if err != nil {
		panic("apiserver: encode continue token: " + err.Error()) // strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeToken returns the version of a token and the first key that may follow.
func decodeToken(token string) (v int64, from schema.Key, err error) {
	var c continueToken
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("continue key is not valid: %w", err)
	case c.APIVersion != tokenVersion:
		err = fmt.Errorf("continue key is not valid: server does not recognize this encoded version %v", c.APIVersion)
	case c.Version == 0:
		err = fmt.Errorf("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case c.Start == "":
		err = fmt.Errorf("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	if err != nil {
		return 0, schema.Key{}, apierrors.NewBadRequest("invalid continue token: " + err.Error())
	}
	start := strings.TrimPrefix(c.Start, "/")
	// A token is made by a client: it must not lead out of the resource.
	if path.Clean("/"+start) != "/"+start {
		return 0, schema.Key{}, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + c.Start)
	}
	ns, name, ok := strings.Cut(start, "/")
	if !ok { // of a cluster-scoped object, as upstream writes it
		ns, name = "", start
	}
	return c.Version, schema.Key{Namespace: ns, Name: name}, nil
}

// errPagesGone offers to go on with what there is now.
func errPagesGone(from schema.Key) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without the continue parameter, or use the continue " +
		"token in this response to retrieve the remainder of the results. Continuing with the provided token results in an " +
		"inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	from.Name = strings.TrimSuffix(from.Name, "\x00")
	err.ErrStatus.Continue = encodeToken(-1, from)
	return err
}
