package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// projection is a volume made of several sources, whose paths may not meet.
type projection struct {
	*check
	at    *field.Path
	paths sets.Set[string]
}

// path takes a path. Upstream reports a conflict at the volume, with what it
// holds to be its cause.
func (p *projection) path(path, cause string) {
	if path == "" {
		return
	}
	if p.paths.Has(path) {
		p.invalid(p.at, cause, "conflicting duplicate paths")
	}
	p.paths.Insert(path)
}

func (c *check) projected(v *corev1.ProjectedVolumeSource, at *field.Path) {
	c.mode(at.Child("defaultMode"), v.DefaultMode)
	p := &projection{check: c, at: at, paths: sets.New[string]()}
	for i := range v.Sources {
		s, src := &v.Sources[i], at.Child("sources").Index(i)
		n := 0
		if s.Secret != nil {
			n++
			p.keys(s.Secret.Name, s.Secret.Items, src.Child("secret"))
		}
		if s.ConfigMap != nil {
			n++
			p.keys(s.ConfigMap.Name, s.ConfigMap.Items, src.Child("configMap"))
		}
		if s.DownwardAPI != nil {
			n++
			for _, f := range s.DownwardAPI.Items {
				c.downwardFile(&f, src.Child("downwardAPI"))
				p.path(f.Path, f.Path)
			}
		}
		if s.ServiceAccountToken != nil {
			n++
			p.token(s.ServiceAccountToken, src.Child("serviceAccountToken"))
		}
		if s.ClusterTrustBundle != nil {
			n++
			p.bundle(s.ClusterTrustBundle, src.Child("clusterTrustBundle"))
		}
		if s.PodCertificate != nil {
			n++
			p.certificate(s.PodCertificate, src.Child("podCertificate"))
		}
		if n > 1 {
			c.forbid(src, "may not specify more than 1 volume type per source")
		}
	}
}

func (p *projection) keys(name string, items []corev1.KeyToPath, at *field.Path) {
	p.nonEmpty(at.Child("name"), name)
	for i := range items {
		at := at.Child("items").Index(i)
		p.nonEmpty(at.Child("key"), items[i].Key)
		p.nonEmpty(at.Child("path"), items[i].Path)
		p.unreserved(at.Child("path"), items[i].Path)
		p.mode(at.Child("mode"), items[i].Mode)
		p.path(items[i].Path, name)
	}
}

func (p *projection) token(t *corev1.ServiceAccountTokenProjection, at *field.Path) {
	if s := t.ExpirationSeconds; s != nil {
		if *s < 10*60 {
			p.invalid(at.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes")
		}
		if *s > 1<<32 {
			p.invalid(at.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds")
		}
	}
	if t.Path == "" {
		p.required(p.at.Child("path"), "")
	} else {
		p.unreserved(p.at.Child("path"), t.Path)
	}
}

func (p *projection) bundle(b *corev1.ClusterTrustBundleProjection, at *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		p.invalid(at, Internal(b), "only one of name and signerName may be used")
	case b.Name != nil:
		if *b.Name == "" {
			p.required(at.Child("name"), "must be a valid object name")
		}
		if b.LabelSelector != nil {
			p.invalid(at.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			p.required(at.Child("signerName"), "must be a valid signer name")
		}
		p.add(metav1validation.ValidateLabelSelector(b.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
	default:
		p.required(at, "either name or signerName must be specified")
	}
	p.nonEmpty(at.Child("path"), b.Path)
	p.unreserved(at.Child("path"), b.Path)
	p.path(b.Path, b.Path)
}

// maxPodCertificate is the longest that any signer may make a pod's
// certificate last, in seconds: 91 days.
const maxPodCertificate = 91 * 24 * 60 * 60

func (p *projection) certificate(cert *corev1.PodCertificateProjection, at *field.Path) {
	p.nonEmpty(at.Child("signerName"), cert.SignerName)
	oneOf(p.check, at.Child("keyType"), cert.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
	if s := cert.MaxExpirationSeconds; s != nil {
		if *s < 3600 {
			p.invalid(at.Child("maxExpirationSeconds"), *s, "if provided, maxExpirationSeconds must be >= 3600")
		}
		if *s > maxPodCertificate {
			p.invalid(at.Child("maxExpirationSeconds"), *s, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", maxPodCertificate))
		}
	}
	n := 0
	for _, f := range [][2]string{
		{"credentialBundlePath", cert.CredentialBundlePath}, {"keyPath", cert.KeyPath}, {"certificateChainPath", cert.CertificateChainPath},
	} {
		if f[1] != "" {
			n++
			p.unreserved(at.Child(f[0]), f[1])
			p.path(f[1], f[1])
		}
	}
	if n == 0 {
		p.required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
