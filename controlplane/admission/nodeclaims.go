package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// checkClaimStatus lets a node tell how large a volume is, and no more.
func checkClaimStatus(a *registry.Attributes, name string) error {
	if a.Subresource != "status" {
		return errors.New("may only update PVC status")
	}
	old, was := a.Old.(*corev1.PersistentVolumeClaim)
	pvc, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !was || !ok {
		return fmt.Errorf("unexpected type %T", a.Object)
	}
	rest := func(p *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		p = p.DeepCopy()
		p.ResourceVersion, p.ManagedFields = "", nil
		p.Status.Capacity, p.Status.Conditions = nil, nil
		p.Status.AllocatedResources, p.Status.AllocatedResourceStatuses = nil, nil
		return p
	}
	if !equality.Semantic.DeepEqual(rest(old), rest(pvc)) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions", name)
	}
	return nil
}

func checkSlice(a *registry.Attributes, name string) error {
	of := func(o schema.Object) bool {
		s, ok := o.(*resourcev1.ResourceSlice)
		return ok && s.Spec.NodeName != nil && *s.Spec.NodeName == name
	}
	switch {
	case a.Verb == "create" && !of(a.Object):
		return errors.New("can only create ResourceSlice with the same NodeName as the requesting node")
	case a.Verb == "delete" && !of(a.Old):
		return errors.New("can only delete ResourceSlice with the same NodeName as the requesting node")
	}
	return nil
}

// checkNodeRequest lets a node ask for certificates in its own name only.
func checkNodeRequest(a *registry.Attributes, name string) error {
	csr, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if a.Verb != "create" || !ok {
		return nil
	}
	if s := csr.Spec.SignerName; s != certificatesv1.KubeletServingSignerName && s != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	req, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return fmt.Errorf("unable to parse csr: %w", err)
	}
	if want := identity.NodeUser(name); req.Subject.CommonName != want {
		return fmt.Errorf("can only create a node CSR with CN=%s", want)
	}
	return nil
}

// checkToken lets a node have tokens for its pods only, for the audiences that
// their volumes ask for.
func (p *NodeRestriction) checkToken(ctx context.Context, a *registry.Attributes, name string) error {
	tr, ok := a.Object.(*authenticationv1.TokenRequest)
	if a.Verb != "create" || a.Subresource != "token" || !ok {
		return nil
	}
	ref := tr.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return errors.New("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return errors.New("node requested token with a pod binding without a uid")
	}
	pod, ok := client.Cached[*corev1.Pod](a.Cluster, schema.Key{Namespace: a.Key.Namespace, Name: ref.Name})
	switch {
	case !ok:
		return fmt.Errorf("pod %q not found", ref.Name)
	case ref.UID != pod.UID:
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != name:
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	audience := ""
	switch len(tr.Spec.Audiences) {
	case 0:
	case 1:
		audience = tr.Spec.Audiences[0]
	default:
		return errors.New("node may only request 0 or 1 audiences")
	}
	if wants(a.Cluster, pod, audience) {
		return nil
	}
	if p.Authorizer != nil {
		d, _, _ := p.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: a.User, Verb: "request-serviceaccounts-token-audience", Namespace: a.Key.Namespace, APIVersion: "v1",
			Resource: audience, Name: a.Key.Name, ResourceRequest: true,
		})
		if d == authorizer.DecisionAllow {
			return nil
		}
	}
	return fmt.Errorf("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, a.User.GetName())
}

// wants says whether a volume of a pod asks for a token of an audience: a
// projected one, or the driver of a CSI volume.
func wants(c client.Cache, pod *corev1.Pod, audience string) bool {
	for _, v := range pod.Spec.Volumes {
		driver := ""
		switch {
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience {
					return true
				}
			}
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			driver = driverOf(c, pod.Namespace, pod.Name+"-"+v.Name)
		case v.PersistentVolumeClaim != nil:
			driver = driverOf(c, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		case v.CSI != nil:
			driver = v.CSI.Driver
		}
		if driver == "" {
			continue
		}
		if d, ok := client.Cached[*storagev1.CSIDriver](c, schema.Key{Name: driver}); ok {
			for _, t := range d.Spec.TokenRequests {
				if t.Audience == audience {
					return true
				}
			}
		}
	}
	return false
}

// driverOf returns the CSI driver behind a claim; "" when there is none.
func driverOf(c client.Cache, namespace, claim string) string {
	pvc, ok := client.Cached[*corev1.PersistentVolumeClaim](c, schema.Key{Namespace: namespace, Name: claim})
	if !ok || strings.TrimSpace(pvc.Spec.VolumeName) == "" {
		return ""
	}
	pv, ok := client.Cached[*corev1.PersistentVolume](c, schema.Key{Name: pvc.Spec.VolumeName})
	if !ok || pv.Spec.CSI == nil {
		return ""
	}
	return pv.Spec.CSI.Driver
}
