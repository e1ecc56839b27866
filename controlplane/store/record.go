package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/writ-os/writ/schema"
)

// recordRoot begins the keys of records. No object has such a key, of whatever
// resource: theirs have a segment more. It is below root all the same, so that
// servers of the version before see the revision pass, and only log that they do
// not know the key.
const recordRoot = root + "writ-record-"

// Record is what the servers keep beside the objects, and no API serves: nobody
// but the code that holds a Store reads or writes it. It is not sealed.
type Record struct {
	Value   []byte
	Version schema.ResourceVersion // 0: there is none
}

// ErrRecordChanged says that a record, or an object written beside it, is not
// what was expected.
var ErrRecordChanged = errors.New("the record has changed meanwhile")

// records are those of the copy. They never change; others take their place.
type records struct {
	of      map[string]Record
	changed chan struct{} // closed when others have taken their place
}

func noRecords() *records { return &records{changed: make(chan struct{})} }

// recordName is the name of the record that a key is of.
func recordName(key []byte) (string, bool) {
	name, ok := strings.CutPrefix(string(key), recordRoot)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// Record is a record as the copy has it, and a channel that is closed when any
// record has changed. Who must have the newest calls Current before.
func (s *Store) Record(name string) (rec Record, changed <-chan struct{}) {
	all := s.records.Load()
	return all.of[name], all.changed
}

// PutRecord stores a record and the objects beside it at one revision, or nothing.
// expect is the version that the record must have, 0 that there is none. A
// demand that does not hold gives ErrRecordChanged.
func (s *Store) PutRecord(ctx context.Context, name string, value []byte, expect schema.ResourceVersion, beside ...Write) error {
	key := []byte(recordRoot + name)
	if _, ok := recordName(key); !ok {
		return fmt.Errorf("%q is no name of a record", name)
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	if err := s.readable(beside); err != nil {
		return err
	}
	keys, pending, err := s.prepare(beside)
	if err != nil {
		return err
	}
	if err := s.mayPut(len(key) + len(value)); err != nil {
		return err
	}
	s.enter(keys, pending)
	defer s.leave(keys, pending)
	req := request(beside, keys, pending)
	req.Compare = append(req.Compare, &pb.Compare{
		Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_ModRevision{ModRevision: expect.Main()},
	})
	req.Success = append(req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}})
	resp, err := s.propose(ctx, req)
	if err != nil {
		return s.explain(err)
	}
	if err := s.WaitFor(context.WithoutCancel(ctx), schema.NewResourceVersion(resp.Header.Revision, 0)); err != nil {
		return fmt.Errorf("%w: it was decided, and this server ended: %w", ErrUnknownOutcome, err)
	}
	if !resp.Succeeded {
		s.met.conflicts.Inc()
		return ErrRecordChanged
	}
	return nil
}

// noteRecords brings the records of the copy to what etcd has said: nil deletes.
func (s *Store) noteRecords(changes map[string]*Record) {
	if len(changes) == 0 {
		return
	}
	was := s.records.Load()
	next := &records{of: maps.Clone(was.of), changed: make(chan struct{})}
	if next.of == nil {
		next.of = map[string]Record{}
	}
	for name, rec := range changes {
		if rec == nil {
			delete(next.of, name)
		} else {
			next.of[name] = Record{Value: bytes.Clone(rec.Value), Version: rec.Version}
		}
	}
	s.records.Store(next)
	close(was.changed)
}
