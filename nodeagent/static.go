package nodeagent

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/pod"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// mirrorRetry is the pause before a mirror that was refused is tried again.
const mirrorRetry = 10 * time.Second

// readFiles brings the static pods in step with the directory.
func (m *merger) readFiles(context.Context) error {
	if m.a.cfg.StaticDir == "" {
		return nil
	}
	pods, err := readStatic(m.a.cfg.StaticDir, m.a.cfg.NodeName)
	if pods == nil && err != nil {
		return err // the directory itself: keep what runs
	}
	for uid := range m.static {
		if pods[uid] == nil {
			delete(m.static, uid)
			m.a.pods.Remove(uid)
			m.forget(uid)
		}
	}
	for uid, p := range pods {
		if m.static[uid] != nil {
			continue
		}
		m.static[uid] = p
		if m.a.objects != nil {
			m.a.objects.register(p)
		}
		m.a.pods.Update(p, m.mirrors[uid])
	}
	return err
}

// readStatic reads the manifests of a directory. Files that cannot be read as
// pods are in the error; the others are returned all the same.
func readStatic(dir, node string) (map[string]*corev1.Pod, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]*corev1.Pod{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read static pods: %w", err)
	}
	out := map[string]*corev1.Pod{}
	var errs []error
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p, err := staticPod(b, path, node)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
			continue
		}
		out[string(p.UID)] = p
	}
	return out, errors.Join(errs...)
}

// staticPod makes a pod of a manifest. Its UID is the hash of file and node: a
// changed file is another pod.
func staticPod(b []byte, path, node string) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(b, p); err != nil {
		return nil, fmt.Errorf("parse static pod: %w", err)
	}
	if p.Kind != "Pod" || p.APIVersion != "v1" || p.Name == "" || len(p.Spec.Containers) == 0 {
		return nil, errors.New("parse static pod: not a v1 Pod with a name and containers")
	}
	sum := md5.Sum(append([]byte("host:"+node+"file:"+path+"\n"), b...)) //nolint:gosec // an identity, as upstream makes it
	hash := hex.EncodeToString(sum[:])
	p.UID = types.UID(hash)
	p.Name += "-" + strings.ToLower(node)
	if p.Namespace == "" {
		p.Namespace = corev1.NamespaceDefault
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[pod.AnnotationSource] = "file"
	p.Annotations[pod.AnnotationHash] = hash
	p.Annotations["kubernetes.io/config.seen"] = time.Now().Format(time.RFC3339Nano)
	p.Spec.NodeName = node
	p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	defaults.Apply(p)
	p.Status.Phase = corev1.PodPending
	return p, nil
}

// mirror shows static pods on the server, and takes back what is no more.
func (m *merger) mirror(ctx context.Context) {
	for uid, s := range m.static {
		have := m.mirrors[uid]
		if have != nil && have.DeletionTimestamp == nil {
			continue
		}
		if time.Since(m.creates[uid]) < mirrorRetry {
			continue
		}
		if have != nil {
			m.deleteMirror(ctx, have)
		}
		if err := m.createMirror(ctx, s); err != nil {
			m.creates[uid] = time.Now()
			m.a.log.Warn("create mirror pod", "pod", s.Namespace+"/"+s.Name, "err", err)
		}
	}
	for hash, have := range m.mirrors {
		if m.static[hash] == nil {
			m.deleteMirror(ctx, have)
			delete(m.mirrors, hash)
		}
	}
}

func (m *merger) createMirror(ctx context.Context, s *corev1.Pod) error {
	p := s.DeepCopy()
	p.UID = ""
	p.Status = corev1.PodStatus{}
	p.Annotations[pod.AnnotationMirror] = string(s.UID)
	if node, err := client.Get[*corev1.Node](ctx, m.a.cfg.Client, schema.Key{Name: m.a.cfg.NodeName}); err == nil {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &yes}}
	}
	_, err := client.Create(ctx, m.a.cfg.Client, p, client.WriteOptions{FieldManager: "kubelet"})
	if apierrors.IsAlreadyExists(err) {
		return m.replaceMirror(ctx, p)
	}
	return err
}

// replaceMirror takes away a mirror of an earlier version of the file.
func (m *merger) replaceMirror(ctx context.Context, p *corev1.Pod) error {
	have, err := client.Get[*corev1.Pod](ctx, m.a.cfg.Client, schema.KeyOf(p))
	if err != nil {
		return err
	}
	hash := have.Annotations[pod.AnnotationMirror]
	switch hash {
	case "":
		return fmt.Errorf("the name is taken by a pod that is no mirror")
	case p.Annotations[pod.AnnotationMirror]:
		return nil // ours; the watch will say so
	}
	m.deleteMirror(ctx, have)
	_, err = client.Create(ctx, m.a.cfg.Client, p, client.WriteOptions{FieldManager: "kubelet"})
	return err
}

func (m *merger) deleteMirror(ctx context.Context, have *corev1.Pod) {
	zero := int64(0)
	err := client.Delete[*corev1.Pod](ctx, m.a.cfg.Client, schema.KeyOf(have), client.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &have.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		m.a.log.Warn("delete mirror pod", "pod", have.Namespace+"/"+have.Name, "err", err)
	}
}
