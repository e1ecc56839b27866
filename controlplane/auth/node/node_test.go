package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/policy"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
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
		},
	}
}

func TestAuthorize(t *testing.T) {
	other := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"},
		Spec: corev1.PodSpec{NodeName: "b", ServiceAccountName: "other", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "theirs"}}}}
	volume := func(name, claim string) schema.Object {
		return &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: claim}}}
	}
	a := New(client.NewFake(webPod(), other, volume("pv", "data"), volume("pv-of-others", "theirs")).Cache(), policy.NodeRules())
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
		{"patch nodes/status /b", false, "can only write the node object of the same name"}, {"update nodes /b", false, ""}, {"delete nodes /a", false, ""},
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
