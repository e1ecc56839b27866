package receive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// notOurs is what a server of git says of an object that it does not have.
const notOurs = "not our ref"

// upload serves git-upload-pack.
func (r *Remote) upload(w http.ResponseWriter, req *http.Request, repo *repository, in *packetReader, replica bool) {
	u, err := parseUpload(in)
	if err != nil {
		badRequest(w, err)
		return
	}
	if len(u.wants) == 0 {
		return
	}
	repo.packs.RLock()
	defer repo.packs.RUnlock()
	st := openObjects(repo.dir)
	defer st.Close()
	out := bufio.NewWriterSize(w, 64<<10)
	noteWants(req.Context(), u.wants)
	var unled []plumbing.Hash
	if replica {
		unled = slices.DeleteFunc(slices.Clone(u.wants), func(h plumbing.Hash) bool { return st.HasEncodedObject(h) == nil })
	} else if unled, err = repo.unled(req.Context(), st, u.wants); err != nil {
		r.cfg.Log.ErrorContext(req.Context(), "serve fetch", "repository", repo.name, "err", err)
		_ = writePacket(out, "ERR upload-pack: the repository cannot be read")
		_ = out.Flush()
		return
	}
	if len(unled) > 0 {
		_ = writePacket(out, "ERR upload-pack: "+notOurs+" %s", unled[0])
		_ = out.Flush()
		return
	}
	if err := r.answer(st, u, out); err != nil {
		// A client that went away is its own business; the log tells the rest.
		if req.Context().Err() == nil {
			r.cfg.Log.WarnContext(req.Context(), "serve fetch", "repository", repo.name, "err", err)
		}
	}
}

// answer writes the reply to one round.
func (r *Remote) answer(st storer.EncodedObjectStorer, u *uploadRequest, out *bufio.Writer) error {
	if u.depth > 0 {
		if err := u.deepen(st, out); err != nil {
			return err
		}
	}
	if err := u.negotiate(st, out); err != nil {
		return err
	}
	if !u.done {
		return out.Flush()
	}
	size := bandSize(u.caps)
	objs, err := choose(st, u.demand)
	if err != nil {
		_, _ = io.WriteString(band{out, bandError, size}, "the remote cannot read its objects\n")
		return errors.Join(err, out.Flush())
	}
	data := bufio.NewWriterSize(band{out, bandData, size}, maxPacket-5)
	if err := streamPack(data, st, objs); err != nil {
		_, _ = io.WriteString(band{out, bandError, size}, "the remote cannot read its objects\n")
		return errors.Join(fmt.Errorf("write pack: %w", err), out.Flush())
	}
	if err := data.Flush(); err != nil {
		return err
	}
	if size > 0 {
		_ = writeFlush(out)
	}
	return out.Flush()
}

// negotiate says which of the client's commits are here, by the rules of the
// stateless protocol, and keeps them as haves.
func (u *uploadRequest) negotiate(st storer.EncodedObjectStorer, out io.Writer) error {
	detailed := u.caps["multi_ack_detailed"]
	for i, round := range u.rounds {
		common := false
		for _, h := range round {
			if _, err := st.EncodedObject(plumbing.CommitObject, h); err != nil {
				continue
			}
			common = true
			u.haves = append(u.haves, h)
			if detailed {
				_ = writePacket(out, "ACK %s common\n", h)
			} else if len(u.haves) == 1 {
				_ = writePacket(out, "ACK %s\n", h)
			}
		}
		if u.done && i == len(u.rounds)-1 {
			break
		}
		if detailed && common {
			// One common commit is enough: what the client has beside it is
			// at worst sent once more.
			_ = writePacket(out, "ACK %s ready\n", u.haves[len(u.haves)-1])
		}
		if detailed || len(u.haves) == 0 {
			_ = writePacket(out, "NAK\n")
		}
	}
	switch {
	case !u.done:
		return nil
	case len(u.haves) == 0:
		return writePacket(out, "NAK\n")
	case detailed:
		return writePacket(out, "ACK %s\n", u.haves[len(u.haves)-1])
	}
	return nil
}

// deepen finds where the history of a shallow client ends from now on and
// says what changes for it.
func (u *uploadRequest) deepen(st storer.EncodedObjectStorer, out io.Writer) error {
	u.cut = make(map[plumbing.Hash]bool)
	depth := make(map[plumbing.Hash]bool)
	level := make([]plumbing.Hash, 0, len(u.wants))
	for _, w := range u.wants {
		level = append(level, peelTag(st, w))
	}
	for n := 1; len(level) > 0; n++ {
		var next []plumbing.Hash
		for _, h := range level {
			if depth[h] {
				continue
			}
			depth[h] = true
			c, err := commitOrNil(st, h)
			if err != nil {
				return err
			}
			switch {
			case c == nil || len(c.ParentHashes) == 0 && !u.shallow[h]:
			case n == u.depth:
				u.cut[h] = true
				if !u.shallow[h] {
					_ = writePacket(out, "shallow %s\n", h)
				}
			default:
				if u.shallow[h] {
					_ = writePacket(out, "unshallow %s\n", h)
					u.wants = append(u.wants, c.ParentHashes...)
				}
				next = append(next, c.ParentHashes...)
			}
		}
		level = next
	}
	return writeFlush(out)
}
