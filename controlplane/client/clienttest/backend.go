package clienttest

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// RunBackend runs what a server in the same process promises: all of Run, and
// transactions, and its cache.
func RunBackend(t *testing.T, ctx context.Context, open func(t *testing.T) client.Backend) {
	Run(t, ctx, func(t *testing.T) client.Interface { return open(t) })
	for name, test := range map[string]func(*suite, client.Backend){
		"Transaction":       (*suite).transaction,
		"TransactionFails":  (*suite).transactionFails,
		"TransactionDryRun": (*suite).transactionDryRun,
		"ServersCache":      (*suite).serversCache,
		"LateSubscriber":    (*suite).lateSubscriber,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			test(&suite{T: t, ctx: ctx, c: b}, b)
		})
	}
}

var maps = schema.ResourceFor[*corev1.ConfigMap]()

func op(v client.Verb, o *corev1.ConfigMap) client.Op {
	return client.Op{Verb: v, Resource: maps, Key: schema.KeyOf(o), Object: o, FieldManager: "clienttest"}
}

// transaction: each op sees the ones before it, and the results come in order.
func (s *suite) transaction(b client.Backend) {
	create(s, configMap("old", nil, map[string]string{"k": "1"}))
	generated := configMap("", nil, nil)
	generated.GenerateName = "gen-"
	apply := client.Op{
		Verb: client.VerbApply, Resource: maps, Key: key("applied"), Object: configMap("applied", nil, nil), FieldManager: "git", ResourceVersion: "0",
		Fields: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied","namespace":"default"},"data":{"k":"1"}}`),
	}
	out, err := b.Transact(s.ctx, []client.Op{
		op(client.VerbCreate, configMap("new", nil, map[string]string{"k": "1"})),
		op(client.VerbUpdate, configMap("old", nil, map[string]string{"k": "2"})),
		apply,
		op(client.VerbCreate, generated),
		{Verb: client.VerbDelete, Resource: maps, Key: key("old")},
	}, false)
	s.ok("transact", err)
	if len(out) != 5 || out[0].GetName() != "new" || out[2].GetName() != "applied" || len(out[3].GetName()) != 9 {
		s.Fatalf("results: %v", out)
	}
	if _, err := client.Get[*corev1.ConfigMap](s.ctx, s.c, key("old")); !apierrors.IsNotFound(err) {
		s.Errorf("deleted object: %v", err)
	}
	for _, name := range []string{"new", "applied", out[3].GetName()} {
		if _, ok := b.Cache().Get(maps, key(name)); !ok {
			s.Errorf("%s is not in the server's cache after the transaction", name)
		}
	}
}

// transactionFails: where one op is refused nothing is stored, and the error
// names the op.
func (s *suite) transactionFails(b client.Backend) {
	made := create(s, configMap("taken", nil, nil))
	stale := op(client.VerbUpdate, copyOf(made))
	stale.ResourceVersion = "1"
	_, err := b.Transact(s.ctx, []client.Op{
		op(client.VerbCreate, configMap("a", nil, nil)),
		op(client.VerbCreate, configMap("taken", nil, nil)),
		stale,
	}, false)
	var refused *client.TransactionError
	if !errors.As(err, &refused) {
		s.Fatalf("transact: %v", err)
	}
	if refused.Errs[0] != nil || !apierrors.IsAlreadyExists(refused.Errs[1]) || !apierrors.IsConflict(refused.Errs[2]) {
		s.Errorf("refusals: %v", refused.Errs)
	}
	_, err = client.Get[*corev1.ConfigMap](s.ctx, s.c, key("a"))
	s.is("get of what was not stored", err, apierrors.IsNotFound)
}

func (s *suite) transactionDryRun(b client.Backend) {
	out, err := b.Transact(s.ctx, []client.Op{op(client.VerbCreate, configMap("a", nil, nil))}, true)
	s.ok("transact", err)
	if len(out) != 1 {
		s.Errorf("%d results", len(out))
	}
	_, err = client.Get[*corev1.ConfigMap](s.ctx, s.c, key("a"))
	s.is("get after a dry run", err, apierrors.IsNotFound)
}

// lateSubscriber: what is written while a subscriber is shown what there is comes
// after that, once; and a subscriber may look into the cache, whatever it is shown.
func (s *suite) lateSubscriber(b client.Backend) {
	create(s, configMap("a", nil, nil))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	seen := &log{}
	s.ok("subscribe", b.Cache().Subscribe(ctx, maps, func(ev client.Event) {
		if ev.Object.GetName() == "a" {
			create(s, configMap("b", nil, nil))
		}
		b.Cache().Get(maps, key("a"))
		seen.add(ev)
	}))
	want := "ADDED a, ADDED b, "
	for begin := time.Now(); seen.String() != want && time.Since(begin) < patience; {
		time.Sleep(time.Millisecond)
	}
	if got := seen.String(); got != want {
		s.Errorf("events %q, want %q", got, want)
	}
}

// serversCache: what is written is in the cache when the write returns, and
// subscribers hear of it in order.
func (s *suite) serversCache(b client.Backend) {
	create(s, configMap("a", nil, nil))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	seen := &log{}
	s.ok("subscribe", b.Cache().Subscribe(ctx, maps, seen.add))
	create(s, configMap("b", nil, nil))
	if _, ok := b.Cache().Get(maps, key("b")); !ok {
		s.Error("created object is not in the cache")
	}
	s.change("a", nil)
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("b"), client.DeleteOptions{}))
	want := "ADDED a, ADDED b, MODIFIED a, DELETED b, "
	for begin := time.Now(); seen.String() != want && time.Since(begin) < patience; {
		time.Sleep(time.Millisecond)
	}
	if got := seen.String(); got != want {
		s.Errorf("events %q, want %q", got, want)
	}
	if n := len(b.Cache().List(maps, namespace)); n != 1 {
		s.Errorf("%d objects in the cache", n)
	}
}
