package admission

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

const (
	tokenVolumePrefix = "kube-api-access-"
	tokenMountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is upstream's lifetime of a pod's token, with which the
	// token authority knows clients that do not read the file again.
	tokenSeconds = 60*60 + 7
	rootCAMap    = "kube-root-ca.crt"
)

// ServiceAccount gives every pod a service account that exists, its image pull
// secrets, and its token in every container.
type ServiceAccount struct{ mutates }

var _ registry.Admission = (*ServiceAccount)(nil)

// Handles implements registry.Handler.
func (*ServiceAccount) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && is(r, "", "pods")
}

// Mutate implements registry.Admission.
func (*ServiceAccount) Mutate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return checkMirror(a, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = "default"
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	sa, err := accountOf(a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if automount(sa, pod) {
		mountToken(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, sa.ImagePullSecrets...)
	}
	return nil
}

func accountOf(a *registry.Attributes, name string) (*corev1.ServiceAccount, error) {
	if sa, ok := client.Cached[*corev1.ServiceAccount](a.Cluster, schema.Key{Namespace: a.Key.Namespace, Name: name}); ok {
		return sa, nil
	}
	if name == "default" && identity.Is(a.User, identity.Reconciler) {
		// A commit may declare a namespace and a pod in it. The default account
		// follows the namespace at once; the node waits for it.
		return &corev1.ServiceAccount{}, nil
	}
	return nil, forbidden(a, fmt.Errorf("error looking up service account %s/%s: serviceaccount %q not found", a.Key.Namespace, name, name))
}

// checkMirror refuses a mirror pod that would get credentials: what it mirrors
// is a file on the node, which has no account.
func checkMirror(a *registry.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return forbidden(a, fmt.Errorf("a mirror pod may not reference service accounts"))
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			return forbidden(a, fmt.Errorf("a mirror pod may not reference secrets"))
		}
		if v.Projected == nil {
			continue
		}
		for _, src := range v.Projected.Sources {
			if src.ServiceAccountToken != nil {
				return forbidden(a, fmt.Errorf("a mirror pod may not use ServiceAccountToken volume projections"))
			}
			if src.Secret != nil {
				return forbidden(a, fmt.Errorf("a mirror pod may not reference secrets"))
			}
		}
	}
	return nil
}

// automount: the pod's word counts before the account's, and the default is yes.
func automount(sa *corev1.ServiceAccount, pod *corev1.Pod) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case sa.AutomountServiceAccountToken != nil:
		return *sa.AutomountServiceAccountToken
	}
	return true
}

// mountToken mounts the token where clients look for it, unless a container
// has something else there.
func mountToken(pod *corev1.Pod) {
	name := ""
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, tokenVolumePrefix) {
			name = v.Name
			break
		}
	}
	have := name != ""
	if !have {
		name = tokenVolumePrefix + utilrand.String(5)
	}
	mounted := false
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if !mountsAt(list[i].VolumeMounts, tokenMountPath) {
				list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: tokenMountPath})
				mounted = true
			}
		}
	}
	if mounted && !have {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenVolume()}})
	}
}

func mountsAt(mounts []corev1.VolumeMount, path string) bool {
	for _, m := range mounts {
		if m.MountPath == path {
			return true
		}
	}
	return false
}

// tokenVolume holds the token, the CA of the API server and the namespace.
func tokenVolume() *corev1.ProjectedVolumeSource {
	seconds, mode := int64(tokenSeconds), corev1.ProjectedVolumeSourceDefaultMode
	return &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCAMap},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}
