package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// ErrNoData says that a directory holds no store.
var ErrNoData = errors.New("it holds no data")

// askPatience bounds Ask. One that has lost the others answers after its own
// patience, which is shorter.
const askPatience = 10 * time.Second

// ReadMembers reads who the members are out of the directory of a store that
// does not run: as it had them when it wrote to its database last. Who leads is
// not in there. A store that is alone has one member.
func ReadMembers(dir string) (all []Member, err error) {
	path := filepath.Join(dir, "member", "snap", "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoData
	case errors.Is(err, bberrors.ErrTimeout):
		return nil, fmt.Errorf("read members in %s: another process uses it", dir)
	case err != nil:
		return nil, fmt.Errorf("read members in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(schema.Members.Name())
		if b == nil {
			return ErrNoData
		}
		return b.ForEach(func(key, value []byte) error {
			m, err := parseMember(key, value)
			all = append(all, m)
			return err
		})
	})
	if err == nil && len(all) == 0 {
		err = ErrNoData
	}
	slices.SortFunc(all, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// parseMember reads a member as etcd writes it to its database.
func parseMember(key, value []byte) (Member, error) {
	id, err := strconv.ParseUint(string(key), 16, 64)
	if err != nil {
		return Member{}, fmt.Errorf("%q is not the ID of a member", key)
	}
	var m membership.Member
	if err := json.Unmarshal(value, &m); err != nil {
		return Member{}, fmt.Errorf("read member %s: %w", key, err)
	}
	out := Member{ID: MemberID(id), Name: m.Name, Learner: m.IsLearner}
	if len(m.PeerURLs) > 0 {
		out.URL = m.PeerURLs[0]
	}
	return out, nil
}

// Ask asks a member, at its URL, whether it is in step with most of the members.
// An error says that it does not answer.
func (t PeerTLS) Ask(ctx context.Context, url string) (inStep bool, err error) {
	if err := checkPeerURL(url); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	rt, err := rafthttp.NewRoundTripper((&Members{TLS: t}).info(), askPatience)
	if err != nil {
		return false, fmt.Errorf("read the certificates of this member: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+inStepPath, http.NoBody)
	if err != nil {
		return false, err
	}
	c := &http.Client{Transport: rt}
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, errors.New("no answer")
	}
	if err != nil {
		return false, err
	}
	_ = resp.Body.Close() // only the code counts
	return resp.StatusCode == http.StatusNoContent, nil
}
