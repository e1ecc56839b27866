package node

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/auth/policy"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// webPod refers to everything that a pod can refer to, by names that say where.
func webPod() *corev1.Pod {
	ref := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.PodSpec{
			NodeName: "a", ServiceAccountName: "web", ImagePullSecrets: []corev1.LocalObjectReference{ref("pull")},
			Volumes: []corev1.Volume{
				{Name: "1", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
				{Name: "2", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("volume")}}},
				{Name: "3", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "4", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: ref("projected")}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("projected")}}}}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{Name: "6", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{Name: "csi"}}}},
			},
			InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("env-from")}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("env-from")}}}}},
			Containers: []corev1.Container{{Env: []corev1.EnvVar{
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("env")}}},
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("env")}}}, {Value: "plain"}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "1", ResourceClaimName: ptr.To("named")}, {Name: "2", ResourceClaimTemplateName: ptr.To("template")}},
		},
		Status: corev1.PodStatus{
			ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "2", ResourceClaimName: ptr.To("made")}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"},
		},
	}
}

// nodeObjects are what a node is related to by more than one step.
func nodeObjects() []schema.Object {
	secret := func(n string) *corev1.SecretReference { return &corev1.SecretReference{Namespace: "storage", Name: n} }
	meta := func(v, k, n string) (metav1.TypeMeta, metav1.ObjectMeta) {
		return metav1.TypeMeta{APIVersion: v, Kind: k}, metav1.ObjectMeta{Name: n}
	}
	csi := func(name, claim string, s *corev1.CSIPersistentVolumeSource) []schema.Object {
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: claim}, PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: s}}}
		pv.TypeMeta, pv.ObjectMeta = meta("v1", "PersistentVolume", name)
		pvc := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}}
		pvc.TypeMeta, pvc.ObjectMeta = meta("v1", "PersistentVolumeClaim", claim)
		pvc.Namespace = "shop"
		return []schema.Object{pv, pvc}
	}
	var out []schema.Object
	// "web" claims it by an ephemeral volume.
	out = append(out, csi("csi", "web-scratch", &corev1.CSIPersistentVolumeSource{NodeStageSecretRef: secret("staged"),
		NodePublishSecretRef: &corev1.SecretReference{Name: "published"}, ControllerExpandSecretRef: secret("controller-only")})...)
	out = append(out, csi("csi-of-others", "theirs", &corev1.CSIPersistentVolumeSource{NodeStageSecretRef: secret("theirs")})...)
	mirror := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "a", ServiceAccountName: "of-mirror", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "of-mirror"}}}}
	mirror.TypeMeta, mirror.ObjectMeta = meta("v1", "Pod", "mirror-of-a")
	mirror.Namespace, mirror.Annotations = "shop", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	out = append(out, mirror)
	for _, n := range []string{"a", "b"} {
		va := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: n}}
		va.TypeMeta, va.ObjectMeta = meta("storage.k8s.io/v1", "VolumeAttachment", "va-"+n)
		slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: &n}}
		slice.TypeMeta, slice.ObjectMeta = meta("resource.k8s.io/v1", "ResourceSlice", "slice-"+n)
		out = append(out, va, slice)
	}
	return out
}

func TestAuthorize(t *testing.T) {
	other := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"},
		Spec: corev1.PodSpec{NodeName: "b", ServiceAccountName: "other", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "theirs"}}}}
	volume := func(name, claim string) schema.Object {
		return &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: claim}}}
	}
	a := New(client.NewFake(append(nodeObjects(), webPod(), other, volume("pv", "data"), volume("pv-of-others", "theirs"))...).Cache(), policy.NodeRules())
	const unrelatedText = "no relationship found between node 'a' and this object"
	for _, tt := range []struct {
		request string // verb resource/sub ns/name ?selector
		allowed bool
		reason  string
	}{
		{"get secrets shop/volume", true, ""}, {"get secrets shop/projected", true, ""}, {"get secrets shop/env", true, ""},
		{"get secrets shop/env-from", true, ""}, {"get secrets shop/pull", true, ""}, {"get secrets shop/csi", true, ""},
		{"watch secrets shop/env", true, ""},
		{"get secrets shop/theirs", false, unrelatedText},
		{"get secrets kube-system/volume", false, unrelatedText},
		{"list secrets shop/", false, "No Object name found"},
		{"list secrets", false, "can only read namespaced object of this type"},
		{"delete secrets shop/env", false, "can only read resources of this type"},
		{"get configmaps shop/volume", true, ""}, {"get configmaps shop/projected", true, ""}, {"get configmaps shop/env", true, ""}, {"get configmaps shop/env-from", true, ""},
		{"get configmaps shop/pull", false, unrelatedText},
		{"get persistentvolumeclaims shop/data", true, ""}, {"get persistentvolumeclaims shop/web-scratch", true, ""},
		{"patch persistentvolumeclaims/status shop/data", true, ""},
		{"patch persistentvolumeclaims shop/data", false, "can only get individual resources of this type"},
		{"get persistentvolumeclaims shop/theirs", false, unrelatedText},
		{"get persistentvolumes /pv", true, ""}, {"get persistentvolumes /pv-of-others", false, unrelatedText}, {"list persistentvolumes", false, ""},
		{"create serviceaccounts/token shop/web", true, ""}, {"get serviceaccounts shop/web", true, ""},
		{"create serviceaccounts/token shop/other", false, unrelatedText}, {"create serviceaccounts shop/web", false, ""},
		{"get pods shop/web", true, ""}, {"get pods shop/other", false, unrelatedText},
		{"list pods ?spec.nodeName=a", true, ""}, {"watch pods ?spec.nodeName=a,status.phase=Running", true, ""},
		{"list pods ?spec.nodeName=b", false, "spec.nodeName field selector"}, {"list pods ?spec.nodeName!=b", false, ""}, {"list pods", false, ""},
		{"patch pods/status shop/web", true, ""}, {"patch pods shop/web", false, ""}, {"create pods/exec shop/web", false, ""}, {"create pods/binding shop/web", false, ""},
		{"create pods shop/mirror", true, ""}, {"delete pods shop/web", true, ""}, {"create pods/eviction shop/web", true, ""},
		{"get nodes /a", true, ""}, {"list nodes", true, ""}, {"create nodes", true, ""}, {"patch nodes/status /a", true, ""}, {"update nodes /a", true, ""},
		{"patch nodes/status /b", true, ""}, {"update nodes /b", true, ""}, // NodeRestriction refuses, with the names
		{"delete nodes /a", false, ""}, {"patch nodes/proxy /a", false, ""}, {"get nodes/proxy /a", false, ""}, {"create nodes/proxy /a", false, ""}, {"get nodes/proxy /a:6443", false, ""},
		{"get nodes/log /a", false, ""}, {"get nodes/metrics /a", false, ""}, {"get nodes/status /a", false, ""}, {"create nodes/status /a", false, ""},
		{"get secrets storage/staged", true, ""}, {"get secrets shop/published", true, ""}, {"get secrets storage/controller-only", false, unrelatedText}, {"get secrets storage/theirs", false, unrelatedText},
		{"get secrets shop/of-mirror", false, unrelatedText}, {"create serviceaccounts/token shop/of-mirror", false, unrelatedText}, {"get pods shop/mirror-of-a", true, ""},
		{"list pods shop/web", true, ""}, {"watch pods shop/other", false, "spec.nodeName field selector"},
		{"get storage.k8s.io:csinodes /a", true, ""}, {"create storage.k8s.io:csinodes", true, ""}, {"patch storage.k8s.io:csinodes /b", false, "can only access CSINode with the same name as the requesting node"},
		{"list storage.k8s.io:csinodes", false, "can only get, create, update, patch, or delete a CSINode"}, {"get storage.k8s.io:csinodes/status /a", false, "cannot authorize CSINode subresources"},
		{"get storage.k8s.io:volumeattachments /va-a", true, ""}, {"get storage.k8s.io:volumeattachments /va-b", false, unrelatedText}, {"list storage.k8s.io:volumeattachments", false, "can only get individual resources of this type"},
		{"get resource.k8s.io:resourceclaims shop/named", true, ""}, {"get resource.k8s.io:resourceclaims shop/made", true, ""}, {"get resource.k8s.io:resourceclaims shop/extended", true, ""},
		{"get resource.k8s.io:resourceclaims shop/theirs", false, unrelatedText}, {"get resource.k8s.io:resourceclaims/status shop/named", false, "cannot get subresource"},
		{"create resource.k8s.io:resourceslices", true, ""}, {"delete resource.k8s.io:resourceslices /slice-a", true, ""}, {"update resource.k8s.io:resourceslices /slice-b", false, unrelatedText},
		{"list resource.k8s.io:resourceslices ?spec.nodeName=a", true, ""}, {"deletecollection resource.k8s.io:resourceslices", false, "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{"list resource.k8s.io:resourceslices ?spec.nodeName=b", false, "nodeName field selector"}, {"get persistentvolumes", false, "No Object name found"},
		{"update coordination.k8s.io:leases kube-node-lease/a", true, ""}, {"create coordination.k8s.io:leases kube-node-lease/", true, ""},
		{"update coordination.k8s.io:leases kube-node-lease/b", false, "same name as the requesting node"},
		{"update coordination.k8s.io:leases kube-system/a", false, `can only access leases in the "kube-node-lease" system namespace`},
		{"watch services", true, ""}, {"watch discovery.k8s.io:endpointslices", false, ""}, {"create events shop/", true, ""},
		{"update services shop/web", false, ""}, {"list apps:deployments", false, ""}, {"create rbac.authorization.k8s.io:clusterrolebindings", false, ""},
	} {
		t.Run(tt.request, func(t *testing.T) {
			d, reason, err := a.Authorize(t.Context(), parse(t, tt.request, &user.DefaultInfo{Name: "system:node:a", Groups: []string{user.NodesGroup}}))
			if err != nil || (d == authorizer.DecisionAllow) != tt.allowed || !strings.Contains(reason, tt.reason) {
				t.Errorf("decision %v, reason %q, %v; want %v, %q", d, reason, err, tt.allowed, tt.reason)
			}
		})
	}
	for _, u := range []user.Info{
		&user.DefaultInfo{Name: "system:node:a"},                                   // not of the group
		&user.DefaultInfo{Name: "a", Groups: []string{user.NodesGroup}},            // not by name
		&user.DefaultInfo{Name: "system:node:", Groups: []string{user.NodesGroup}}, // no node
	} {
		if d, _, _ := a.Authorize(t.Context(), parse(t, "get secrets shop/volume", u)); d != authorizer.DecisionNoOpinion {
			t.Errorf("%v: decision %v", u, d)
		}
	}
}

func parse(t *testing.T, s string, u user.Info) authorizer.AttributesRecord {
	t.Helper()
	r := authorizer.AttributesRecord{User: u, APIVersion: "v1", ResourceRequest: true}
	for i, f := range strings.Fields(s) {
		switch {
		case i == 0:
			r.Verb = f
		case i == 1:
			group, resource, ok := strings.Cut(f, ":")
			if !ok {
				group, resource = "", f
			}
			r.APIGroup = group
			r.Resource, r.Subresource, _ = strings.Cut(resource, "/")
		case strings.HasPrefix(f, "?"):
			sel, err := fields.ParseSelector(f[1:])
			if err != nil {
				t.Fatal(err)
			}
			r.FieldSelectorRequirements = sel.Requirements()
		default:
			r.Namespace, r.Name, _ = strings.Cut(f, "/")
		}
	}
	return r
}

// The Secret of a pool's registries is for the nodes of that pool, and no node
// chooses its pool.
func TestPoolSecrets(t *testing.T) {
	machine := func(name string, labels map[string]string) schema.Object {
		return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	pool := func(name string, priority int32, selector, secret string) schema.Object {
		labels := map[string]string{}
		if selector != "" {
			labels[selector] = ""
		}
		return &v1alpha1.NodePool{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "NodePool"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.NodePoolSpec{Selector: metav1.LabelSelector{MatchLabels: labels}, Priority: priority, Registries: []v1alpha1.NodeRegistry{{Host: "docker.io"}, {Host: "r", Secret: secret}}}}
	}
	const worker, gpu, free = "node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/gpu", "example.com/pool"
	nodes := []schema.Object{
		machine("worker", map[string]string{worker: ""}), machine("gpu", map[string]string{worker: "", gpu: ""}),
		machine("other", nil), machine("self", map[string]string{free: ""}),
	}
	strict := []schema.Object{pool("all", 0, "", "images/all"), pool("gpu", 2, gpu, "images/gpu"), pool("workers", 1, worker, "images/workers")}
	loose := []schema.Object{pool("workers", 3, worker, "images/workers"), pool("self", 2, free, "images/self"), pool("all", 1, "", "images/all")}
	for _, tt := range []struct {
		name, node, request string
		pools               []schema.Object
		allowed             bool
	}{
		{"its pool's", "worker", "get secrets images/workers", strict, true},
		{"to follow it", "worker", "watch secrets images/workers", strict, true},
		{"the pool of the highest priority", "gpu", "get secrets images/gpu", strict, true},
		{"of all others", "other", "get secrets images/all", strict, true},
		{"a node of another pool", "gpu", "get secrets images/workers", strict, false},
		{"a node of no such pool", "other", "get secrets images/workers", strict, false},
		{"of the pool that has what is left", "worker", "get secrets images/all", strict, false},
		{"another namespace", "worker", "get secrets other/workers", strict, false},
		{"all of them", "worker", "list secrets images/", strict, false},
		{"to write it", "worker", "update secrets images/workers", strict, false},
		{"a config map", "worker", "get configmaps images/workers", strict, false},
		{"no such node", "nobody", "get secrets images/all", strict, false},
		{"no pools", "worker", "get secrets images/workers", nil, false},
		{"by a label that it may give itself", "self", "get secrets images/self", loose, false},
		{"by taking such a label away", "other", "get secrets images/all", loose, false},
		{"not in doubt", "worker", "get secrets images/workers", loose, true},
	} {
		a := New(client.NewFake(append(slices.Clone(tt.pools), nodes...)...).Cache(), policy.NodeRules())
		d, reason, err := a.Authorize(t.Context(), parse(t, tt.request, &user.DefaultInfo{Name: "system:node:" + tt.node, Groups: []string{user.NodesGroup}}))
		if err != nil || (d == authorizer.DecisionAllow) != tt.allowed {
			t.Errorf("%s: decision %v, reason %q, %v", tt.name, d, reason, err)
		}
	}
}
