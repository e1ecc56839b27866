package members

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// The refs lie in a record of the store. The version before this one kept them in
// a ConfigMap, kube-system/writ-git-<repository>, and its servers may still run
// beside this one:
//
//   - While one of the members does not say on its lease that it knows the record,
//     the ConfigMap holds the refs, and all servers go by it. Any of them may lead.
//   - When all do, the server that leads stores the record and writes a note into
//     the ConfigMap, in one transaction: killed at any moment there is the one or
//     the other. From then on nobody of this version looks at the ConfigMap.
//   - A server of the version before that comes back, or joins, finds the note in
//     place of the refs. It takes no push and serves no Git while it leads, and
//     says that it cannot read the refs: it loses nothing that it does not know.
//
// A cluster that begins with this version gets the note too, for the last reason.
// The note and the ConfigMap can go one version later.
const (
	configMapPrefix = "writ-git-"
	configMapRefs   = "refs"
	// note is not JSON: whoever takes it for refs must fail.
	note = "moved: the servers keep the branches where no API serves them"
)

var configMaps = schema.ResourceFor[*corev1.ConfigMap]()

// refs are where the branches of a repository are, as the store has them.
type refs struct {
	cfg        Config
	roll       *Roll
	repository string
}

// held is what the store has, and as of which change.
type held struct {
	refs map[string]string // nil when there are none yet
	// record is the version of the record, configMap the object with the refs or
	// the note; 0 and nil when there is none.
	record    schema.ResourceVersion
	configMap *corev1.ConfigMap
}

func (s *refs) key() schema.Key {
	return schema.Key{Namespace: metav1.NamespaceSystem, Name: configMapPrefix + s.repository}
}

func (s *refs) recordName() string { return "git-" + s.repository }

// newest is what the store has now; any server may have written it.
func (s *refs) newest(ctx context.Context) (held, error) {
	if err := s.cfg.Store.Current(ctx); err != nil {
		return held{}, fmt.Errorf("read refs of the repository: %w", err)
	}
	h, _, err := s.here()
	return h, err
}

// here is what the copy of this server has, and a channel that is closed when the
// record changes.
func (s *refs) here() (held, <-chan struct{}, error) {
	// The ConfigMap first: beside one of before the move, a record of after it wins.
	var h held
	if it := s.cfg.Store.View().Get(configMaps, s.key()); it != nil {
		h.configMap, _ = it.Object.(*corev1.ConfigMap)
	}
	rec, changed := s.cfg.Store.Record(s.recordName())
	var text []byte
	switch {
	case rec.Version != 0:
		h.record, text = rec.Version, rec.Value
	case h.configMap != nil:
		text = []byte(h.configMap.Data[configMapRefs])
	default:
		return h, changed, nil
	}
	h.refs = map[string]string{}
	if err := json.Unmarshal(text, &h.refs); err != nil {
		return held{}, changed, fmt.Errorf("read refs of the repository in %s: %w", s.where(h), err)
	}
	return h, changed, nil
}

func (s *refs) where(h held) string {
	if h.record != 0 {
		return "the record " + s.recordName()
	}
	return s.key().String()
}

// put has the store say what the refs are, if they still are what was held.
func (s *refs) put(ctx context.Context, was held, next map[string]string) error {
	text, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode refs: %w", err)
	}
	if was.record != 0 {
		return s.cfg.Store.PutRecord(ctx, s.recordName(), text, was.record)
	}
	all, err := s.cfg.Store.Members(ctx)
	if err != nil {
		return err
	}
	if !knowRecord(all, s.roll.Presences()) {
		return s.putConfigMap(ctx, was.configMap, string(text))
	}
	beside, err := s.noteWrite(was.configMap)
	if err != nil {
		return err
	}
	return s.cfg.Store.PutRecord(ctx, s.recordName(), text, 0, beside)
}

// move takes the refs out of the ConfigMap as soon as all servers know where to.
func (s *refs) move(ctx context.Context) error {
	h, _, err := s.here() // a write by what is not the newest is refused
	if err != nil || h.record != 0 || h.refs == nil {
		return err
	}
	all, err := s.cfg.Store.Members(ctx)
	if err != nil || !knowRecord(all, s.roll.Presences()) {
		return err
	}
	if err := s.put(ctx, h, h.refs); err != nil {
		return fmt.Errorf("move the refs of the repository out of %s: %w", s.key(), err)
	}
	s.cfg.Log.Info("the refs of the repository are where no API serves them", "was", s.key().String())
	return nil
}

// knowRecord says whether every member knows the record; this one does.
func knowRecord(all []store.Member, there map[string]Presence) bool {
	for _, m := range all {
		if !m.Self && !there[m.Name].record {
			return false
		}
	}
	return true
}

// putConfigMap writes the refs where the version before looks for them.
func (s *refs) putConfigMap(ctx context.Context, have *corev1.ConfigMap, text string) error {
	next := s.configMap(text)
	if have == nil {
		_, err := client.Create(ctx, s.cfg.Client, next, client.WriteOptions{})
		return err
	}
	next.ResourceVersion, next.UID = have.ResourceVersion, have.UID
	_, err := client.Update(ctx, s.cfg.Client, next, client.WriteOptions{})
	return err
}

// noteWrite puts the note in the place of the refs. It goes to the store as it is,
// beside the record.
func (s *refs) noteWrite(have *corev1.ConfigMap) (store.Write, error) {
	w := store.Write{Resource: configMaps, Key: s.key()}
	next := s.configMap(note)
	if have == nil {
		next.UID, next.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(time.Now().Truncate(time.Second))
		w.Object = next
		return w, nil
	}
	var err error
	if w.Expect, err = schema.ParseResourceVersion(have.ResourceVersion); err != nil {
		return w, err
	}
	next.ObjectMeta = *have.ObjectMeta.DeepCopy()
	w.Object = next
	return w, nil
}

func (s *refs) configMap(text string) *corev1.ConfigMap {
	k := s.key()
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}, Data: map[string]string{configMapRefs: text}}
}
