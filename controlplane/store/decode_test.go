package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/writ-os/writ/schema"
)

func FuzzSplitKeyValue(f *testing.F) {
	for _, kv := range []*mvccpb.KeyValue{
		{Key: []byte("/registry/pods/a/b"), Value: []byte("v"), ModRevision: 7, CreateRevision: 3, Version: 2, Lease: 9},
		{Key: []byte("k")},
		{},
	} {
		b, err := proto.Marshal(kv)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		key, value, err := splitKeyValue(b)
		want := &mvccpb.KeyValue{}
		if proto.Unmarshal(b, want) != nil || len(want.ProtoReflect().GetUnknown()) > 0 {
			return // it need not understand what etcd does not write, only survive it
		}
		if err != nil || !bytes.Equal(key, want.Key) || !bytes.Equal(value, want.Value) {
			t.Errorf("%x: got %q, %q, %v, want %q, %q", b, key, value, err, want.Key, want.Value)
		}
	})
}

func TestKeyspace(t *testing.T) {
	k := newKeyspace(schema.Resources, 1)
	for _, r := range schema.Resources {
		key := schema.Key{Name: "n"}
		if r.Namespaced {
			key.Namespace = "ns"
		}
		encoded, err := k.encode(r, key)
		if err != nil {
			t.Fatal(err)
		}
		i, back, ok := k.decode([]byte(encoded))
		if !ok || k.slots[i].res != r.Stored() || back != key {
			t.Errorf("%s is %v of %v, %v", encoded, back, k.slots[i].res, ok)
		}
	}
	for _, bad := range []string{
		"", "/registry/", "/registry/pods", "/registry/pods/", "/registry/pods/one", "/registry/pods/a/b/c",
		"/registry/minions/a/b", "/registry/unknown/a/b", "/other/pods/a/b", "/registry/services/specs/a",
	} {
		if i, key, ok := k.decode([]byte(bad)); ok {
			t.Errorf("%q is %v of %v", bad, key, k.slots[i].res)
		}
	}
}

func TestEtcdLog(t *testing.T) {
	var out bytes.Buffer
	bridge := newEtcdLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	log := bridge.zap()
	log.Info("quiet")
	log.With(zap.Int("a", 1)).Warn("careful", zap.String("b", "x"))
	log.With(zap.Int("a", 2)).Warn("careful", zap.String("b", "x")) // again
	log.Warn("Failed to detect schema version")
	done := make(chan struct{})
	go func() {
		defer close(done)
		log.Fatal("disk is gone", zap.String("path", "/x"))
		t.Error("Fatal returned")
	}()
	<-done
	if msg := <-bridge.fatal; msg != "disk is gone path=/x" {
		t.Errorf("fatal message is %q", msg)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN msg=careful part=etcd a=1 b=x") || !strings.Contains(lines[1], "level=ERROR") {
		t.Errorf("logged %q", lines)
	}
}
