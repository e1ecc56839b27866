package receive

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

const agent = "agent=writ"

// Thin packs are declined in both directions: every pack that is stored is
// complete in itself.
const (
	uploadCaps  = "multi_ack_detailed side-band side-band-64k ofs-delta shallow no-progress allow-tip-sha1-in-want allow-reachable-sha1-in-want object-format=sha1 " + agent
	receiveCaps = "report-status delete-refs side-band-64k quiet atomic ofs-delta no-thin object-format=sha1 " + agent
)

// capabilities are what one side of a conversation can do.
type capabilities map[string]bool

func parseCapabilities(s string) capabilities {
	caps := make(capabilities)
	for c := range strings.FieldsSeq(s) {
		caps[c] = true
	}
	return caps
}

// advertise answers info/refs: what the repository has and what the service
// can do.
func (r *Remote) advertise(w http.ResponseWriter, req *http.Request, repo *repository, service string) {
	refs, err := repo.refs()
	if err != nil {
		r.cfg.Log.ErrorContext(req.Context(), "advertise refs", "repository", repo.name, "err", err)
		http.Error(w, "the repository cannot be read", http.StatusInternalServerError)
		return
	}
	var list []ref
	caps := receiveCaps
	if service == uploadPack {
		caps = uploadCaps
		if sha, ok := refs[r.branch()]; ok {
			caps += " symref=HEAD:" + r.branch()
			list = append(list, ref{"HEAD", sha})
		}
	}
	list = append(list, sortRefs(refs)...)
	if service == uploadPack {
		list = repo.peel(list)
	}
	var b bytes.Buffer
	_ = writePacket(&b, "# service=%s\n", service)
	_ = writeFlush(&b)
	if len(list) == 0 {
		list = []ref{{"capabilities^{}", zeroSHA}}
	}
	for i, l := range list {
		if i == 0 {
			_ = writePacket(&b, "%s %s\x00%s\n", l.sha, l.name, caps)
			continue
		}
		_ = writePacket(&b, "%s %s\n", l.sha, l.name)
	}
	_ = writeFlush(&b)
	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	_, _ = w.Write(b.Bytes()) // the client is gone when this fails
}

// peel adds, after each annotated tag, the object that the tag is about.
func (repo *repository) peel(refs []ref) []ref {
	repo.packs.RLock()
	defer repo.packs.RUnlock()
	st := openObjects(repo.dir)
	defer st.Close()
	out := make([]ref, 0, len(refs))
	for _, l := range refs {
		out = append(out, l)
		if !strings.HasPrefix(l.name, "refs/tags/") {
			continue
		}
		if t := peelTag(st, plumbing.NewHash(l.sha)); t.String() != l.sha {
			out = append(out, ref{l.name + "^{}", t.String()})
		}
	}
	return out
}

// peelTag follows annotated tags to what they are about.
func peelTag(st storer.EncodedObjectStorer, h plumbing.Hash) plumbing.Hash {
	for range 16 { // a chain of tags; git itself makes none longer than a few
		tag, err := object.GetTag(st, h)
		if err != nil {
			return h
		}
		h = tag.Target
	}
	return h
}
