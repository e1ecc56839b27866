// Package history keeps the revisions of a pod template as ControllerRevisions,
// for the controllers that have no ReplicaSets to keep them in.
//
// It owns the ControllerRevisions of the owner that it is called for. Two
// templates with the same content are one revision, whose number moves up when
// the owner returns to it.
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// labelHash is the label of a ControllerRevision that holds its hash.
const labelHash = "controller.kubernetes.io/hash"

// Of returns the cached revisions of an owner, oldest first.
func Of(cache client.Cache, owner schema.Object) []*appsv1.ControllerRevision {
	out := client.CachedIndex[*appsv1.ControllerRevision](cache, client.IndexOwner, string(owner.GetUID()))
	slices.SortFunc(out, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Sync returns the revision of a template; it stores one that is new, and
// numbers one that is current again.
func Sync(ctx context.Context, c client.Interface, have []*appsv1.ControllerRevision, owner schema.Object, t *corev1.PodTemplateSpec) (*appsv1.ControllerRevision, error) {
	want, err := build(owner, t, nextNumber(have))
	if err != nil {
		return nil, err
	}
	for i, r := range have {
		if !bytes.Equal(normal(r.Data.Raw), normal(want.Data.Raw)) {
			continue
		}
		if i == len(have)-1 {
			return r, nil
		}
		again := r.DeepCopy()
		again.Revision = want.Revision
		got, err := client.Update(ctx, c, again, client.WriteOptions{})
		if err != nil {
			return nil, fmt.Errorf("renumber revision %s: %w", schema.KeyOf(again), err)
		}
		return got, nil
	}
	got, err := client.Create(ctx, c, want, client.WriteOptions{})
	if apierrors.IsAlreadyExists(err) {
		return adopt(ctx, c, want)
	}
	if err != nil {
		return nil, fmt.Errorf("create revision %s: %w", schema.KeyOf(want), err)
	}
	return got, nil
}

// adopt returns the revision that has the name already: ours, where the cache
// lags. One of another template or owner is a collision of hashes.
func adopt(ctx context.Context, c client.Interface, want *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	live, err := client.Get[*appsv1.ControllerRevision](ctx, c, schema.KeyOf(want))
	if err != nil {
		return nil, fmt.Errorf("read revision %s: %w", schema.KeyOf(want), err)
	}
	ref := metav1.GetControllerOfNoCopy(live)
	if ref == nil || ref.UID != want.OwnerReferences[0].UID || !bytes.Equal(normal(live.Data.Raw), normal(want.Data.Raw)) {
		return nil, fmt.Errorf("create revision %s: the name is taken by another template", schema.KeyOf(want))
	}
	return live, nil
}

// Trim deletes the oldest revisions that nothing uses beyond a limit.
func Trim(ctx context.Context, c client.Interface, have []*appsv1.ControllerRevision, used map[string]bool, limit *int32) error {
	if limit == nil {
		return nil
	}
	idle := slices.DeleteFunc(slices.Clone(have), func(r *appsv1.ControllerRevision) bool { return used[r.Labels[appsv1.ControllerRevisionHashLabelKey]] })
	for i := range len(idle) - int(*limit) {
		err := client.Delete[*appsv1.ControllerRevision](ctx, c, schema.KeyOf(idle[i]), client.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete revision %s: %w", schema.KeyOf(idle[i]), err)
		}
	}
	return nil
}

// Hash returns the hash that pods of a revision carry as a label.
func Hash(r *appsv1.ControllerRevision) string {
	return r.Labels[appsv1.ControllerRevisionHashLabelKey]
}

// Template returns the template that a revision holds.
func Template(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("decode revision %s: %w", schema.KeyOf(r), err)
	}
	return &data.Spec.Template, nil
}

func nextNumber(have []*appsv1.ControllerRevision) int64 {
	if len(have) == 0 {
		return 1
	}
	return have[len(have)-1].Revision + 1
}

// build makes the revision of a template as upstream stores it: a patch that
// replaces spec.template.
func build(owner schema.Object, t *corev1.PodTemplateSpec, number int64) (*appsv1.ControllerRevision, error) {
	raw, err := patch(t)
	if err != nil {
		return nil, fmt.Errorf("encode template of %s: %w", schema.KeyOf(owner), err)
	}
	hash := hashOf(raw)
	labels := map[string]string{}
	for k, v := range t.Labels {
		labels[k] = v
	}
	labels[labelHash] = hash
	labels[appsv1.ControllerRevisionHashLabelKey] = hash
	return &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: owner.GetName() + "-" + hash, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.ResourceOf(owner).GVK())},
		},
		Data:     runtime.RawExtension{Raw: raw},
		Revision: number,
	}, nil
}

func patch(t *corev1.PodTemplateSpec) ([]byte, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	var template map[string]any
	if err := json.Unmarshal(raw, &template); err != nil {
		return nil, err
	}
	template["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
}

func hashOf(raw []byte) string {
	h := fnv.New32a()
	h.Write(raw)
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// normal is JSON with its keys in order: a store may give it back otherwise.
func normal(raw []byte) []byte {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}
