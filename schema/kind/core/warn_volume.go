package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// volumes: sources that nothing mounts any more, and paths that hide each other.
func (w *warner) volumes() {
	for i := range w.spec.Volumes {
		v, at := &w.spec.Volumes[i], w.at.Child("spec", "volumes").Index(i)
		for _, gone := range []struct {
			is         bool
			name, text string
		}{
			{v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
			{v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
			{v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
			{v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+"},
			{v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
			{v.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
			{v.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if gone.is {
				w.say(at.Child(gone.name), "%s", gone.text)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			w.texts = append(w.texts, ClaimWarnings(&v.Ephemeral.VolumeClaimTemplate.Spec, at.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
	}
	for i := range w.spec.Volumes {
		w.overlaps(&w.spec.Volumes[i])
	}
}

// placed is a path in a volume, and what puts a file there.
type placed struct{ path, source string }

func (p placed) String() string {
	if p.source == "" {
		return fmt.Sprintf("%q", p.path)
	}
	return fmt.Sprintf("%q (%s)", p.path, p.source)
}

func (w *warner) overlaps(v *corev1.Volume) {
	if s := v.ConfigMap; s != nil {
		w.hide(v.Name, fmt.Sprintf("ConfigMap %q", s.Name), nil, keyPaths(s.Items, ""))
	}
	if s := v.Secret; s != nil {
		w.hide(v.Name, fmt.Sprintf("Secret %q", s.SecretName), nil, keyPaths(s.Items, ""))
	}
	if s := v.DownwardAPI; s != nil {
		w.hide(v.Name, "DownwardAPI", nil, filePaths(s.Items, ""))
	}
	if v.Projected == nil {
		return
	}
	var all []placed
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		if *s == (corev1.VolumeProjection{}) {
			w.texts = append(w.texts, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			continue
		}
		all = w.hide(v.Name, "Projected", all, projected(s))
	}
}

// projected are the paths of one source of a projected volume.
func projected(s *corev1.VolumeProjection) []placed {
	switch {
	case s.ConfigMap != nil && s.ConfigMap.Items != nil:
		return keyPaths(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))
	case s.Secret != nil && s.Secret.Items != nil:
		return keyPaths(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))
	case s.DownwardAPI != nil && s.DownwardAPI.Items != nil:
		return filePaths(s.DownwardAPI.Items, "DownwardAPI")
	case s.ServiceAccountToken != nil:
		return []placed{{s.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case s.ClusterTrustBundle != nil:
		name := s.ClusterTrustBundle.Name
		if name == nil {
			name = s.ClusterTrustBundle.SignerName
		}
		if name == nil {
			name = new(string)
		}
		return []placed{{s.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case s.PodCertificate != nil:
		var out []placed
		for _, p := range []placed{
			{s.PodCertificate.CertificateChainPath, "PodCertificate chain"},
			{s.PodCertificate.KeyPath, "PodCertificate key"},
			{s.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		} {
			if p.path != "" {
				out = append(out, p)
			}
		}
		return out
	}
	return nil
}

func keyPaths(items []corev1.KeyToPath, source string) []placed {
	out := make([]placed, 0, len(items))
	for _, i := range items {
		out = append(out, placed{i.Path, source})
	}
	return out
}

func filePaths(items []corev1.DownwardAPIVolumeFile, source string) []placed {
	out := make([]placed, 0, len(items))
	for _, i := range items {
		out = append(out, placed{i.Path, source})
	}
	return out
}

// hide warns of paths that are among others already, or below one of them, or
// above, and returns all.
func (w *warner) hide(volume, kind string, all, more []placed) []placed {
	for _, p := range more {
		p.path = strings.TrimRight(p.path, "/")
		for _, o := range all {
			if p.path != "" && (o.path == p.path || strings.HasPrefix(o.path, p.path+"/") || strings.HasPrefix(p.path, o.path+"/")) {
				w.texts = append(w.texts, fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", volume, kind, p, o))
			}
		}
		all = append(all, p)
	}
	return all
}
