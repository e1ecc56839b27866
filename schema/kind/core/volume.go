package core

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const oneVolumeType = "may not specify more than 1 volume type"

// podVolumes checks the volumes of a pod and notes those that mounts can name.
func (p *pod) podVolumes(at *field.Path) {
	names, made := sets.New[string](), sets.New[string]()
	for _, v := range p.spec.Volumes {
		if v.Ephemeral != nil && p.name != "" {
			made.Insert(p.name + "-" + v.Name)
		}
	}
	p.volumes = map[string]corev1.VolumeSource{}
	for i, v := range p.spec.Volumes {
		at := at.Index(i)
		before := len(p.errs)
		p.volumeSource(&v, at)
		if v.Name == "" {
			p.required(at.Child("name"), "")
		} else {
			p.label(at.Child("name"), v.Name)
		}
		if names.Has(v.Name) {
			p.add(field.Duplicate(at.Child("name"), v.Name))
		}
		if len(p.errs) == before {
			names.Insert(v.Name)
			p.volumes[v.Name] = v.VolumeSource
		}
		if c := v.PersistentVolumeClaim; c != nil && made.Has(c.ClaimName) {
			p.invalid(at.Child("persistentVolumeClaim", "claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// sources checks the one source that a volume may have, and counts them.
type sources struct {
	*check
	at *field.Path
	n  int
}

// one checks a source. Upstream names a few fields otherwise when there is
// more than one.
func (s *sources) one(name string, set bool, check func(at *field.Path), other ...string) {
	switch {
	case !set:
	case s.n > 0 && len(other) > 0:
		s.forbid(s.at.Child(other[0]), oneVolumeType)
	case s.n > 0:
		s.forbid(s.at.Child(name), oneVolumeType)
	default:
		s.n++
		check(s.at.Child(name))
	}
}

// need is a source of which upstream checks only that some fields are there.
func (s *sources) need(name string, set bool, fields ...string) {
	s.one(name, set, func(at *field.Path) {
		for i := 0; i < len(fields); i += 2 {
			s.nonEmpty(at.Child(fields[i]), fields[i+1])
		}
	})
}

func (p *pod) volumeSource(v *corev1.Volume, at *field.Path) {
	s := &sources{check: &p.check, at: at}
	s.one("emptyDir", v.EmptyDir != nil, func(at *field.Path) {
		if l := v.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			p.forbid(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}
	})
	s.one("hostPath", v.HostPath != nil, func(at *field.Path) { p.hostPath(v.HostPath, at) })
	s.one("gitRepo", v.GitRepo != nil, func(at *field.Path) {
		p.nonEmpty(at.Child("repository"), v.GitRepo.Repository)
		p.descending(at.Child("directory"), v.GitRepo.Directory)
	})
	s.legacyDisks(&v.VolumeSource)
	s.one("secret", v.Secret != nil, func(at *field.Path) {
		p.nonEmpty(at.Child("secretName"), v.Secret.SecretName)
		p.mode(at.Child("defaultMode"), v.Secret.DefaultMode)
		p.items(v.Secret.Items, at.Child("items"))
	})
	s.one("nfs", v.NFS != nil, func(at *field.Path) { p.nfs(v.NFS, at) })
	s.legacyShares(&v.VolumeSource)
	s.one("persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(at *field.Path) {
		p.nonEmpty(at.Child("claimName"), v.PersistentVolumeClaim.ClaimName)
	})
	s.legacyClouds(&v.VolumeSource)
	s.one("downwardAPI", v.DownwardAPI != nil, func(at *field.Path) {
		p.mode(at.Child("defaultMode"), v.DownwardAPI.DefaultMode)
		for _, f := range v.DownwardAPI.Items {
			p.downwardFile(&f, at)
		}
	}, "downwarAPI")
	s.legacyFC(&v.VolumeSource)
	s.one("configMap", v.ConfigMap != nil, func(at *field.Path) {
		p.nonEmpty(at.Child("name"), v.ConfigMap.Name)
		p.mode(at.Child("defaultMode"), v.ConfigMap.DefaultMode)
		p.items(v.ConfigMap.Items, at.Child("items"))
	})
	s.legacyVendors(&v.VolumeSource)
	s.one("projected", v.Projected != nil, func(at *field.Path) { p.projected(v.Projected, at) })
	s.need("scaleIO", v.ScaleIO != nil, scaleIO(v.ScaleIO)...)
	s.one("csi", v.CSI != nil, func(at *field.Path) { p.csi(v.CSI, at) })
	s.one("ephemeral", v.Ephemeral != nil, func(*field.Path) { p.ephemeral(v, at) })
	s.one("image", v.Image != nil, func(at *field.Path) {
		if p.isPod {
			p.nonEmpty(at.Child("reference"), v.Image.Reference)
		}
		wordOf(&p.check, at.Child("pullPolicy"), v.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	})
	if s.n == 0 {
		p.required(at, "must specify a volume type")
	}
}

func (c *check) hostPath(h *corev1.HostPathVolumeSource, at *field.Path) {
	if h.Path == "" {
		c.required(at.Child("path"), "")
		return
	}
	c.noBacksteps(at.Child("path"), h.Path)
	if h.Type != nil {
		oneOf(c, at.Child("type"), *h.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

func (c *check) nfs(n *corev1.NFSVolumeSource, at *field.Path) {
	c.nonEmpty(at.Child("server"), n.Server)
	c.nonEmpty(at.Child("path"), n.Path)
	if !path.IsAbs(n.Path) {
		c.invalid(at.Child("path"), n.Path, "must be an absolute path")
	}
}

func (c *check) csi(s *corev1.CSIVolumeSource, at *field.Path) {
	c.driver(at.Child("driver"), s.Driver)
	if ref := s.NodePublishSecretRef; ref != nil {
		if ref.Name == "" {
			c.required(at.Child("nodePublishSecretRef", "name"), "")
		} else {
			c.subdomain(at.Child("name"), ref.Name)
		}
	}
}

// ephemeral is a claim that is made for the pod, which gives it its name.
func (p *pod) ephemeral(v *corev1.Volume, at *field.Path) {
	t := v.Ephemeral.VolumeClaimTemplate
	if t == nil {
		p.required(at.Child("ephemeral", "volumeClaimTemplate"), "")
	} else {
		at := at.Child("ephemeral", "volumeClaimTemplate")
		meta := at.Child("metadata")
		p.add(apivalidation.ValidateAnnotations(t.Annotations, meta.Child("annotations"))...)
		p.labels(meta.Child("labels"), t.Labels)
		p.only(t.ObjectMeta, sets.New("Annotations", "Labels"), "cannot be set", meta)
		p.add(ClaimSpecErrors(&t.Spec, at.Child("spec"))...)
	}
	if p.name == "" || v.Name == "" {
		return
	}
	claim := p.name + "-" + v.Name
	for _, msg := range nameErrors(claim, false) {
		p.invalid(at.Child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", claim, msg))
	}
}

// items are keys that become files.
func (c *check) items(items []corev1.KeyToPath, at *field.Path) {
	for i, item := range items {
		at := at.Index(i)
		c.nonEmpty(at.Child("key"), item.Key)
		c.nonEmpty(at.Child("path"), item.Path)
		c.unreserved(at.Child("path"), item.Path)
		c.mode(at.Child("mode"), item.Mode)
	}
}

func (c *check) downwardFile(f *corev1.DownwardAPIVolumeFile, at *field.Path) {
	c.nonEmpty(at.Child("path"), f.Path)
	c.unreserved(at.Child("path"), f.Path)
	switch {
	case f.FieldRef != nil:
		c.fieldRef(f.FieldRef, fileFields, at.Child("fieldRef"))
		if f.ResourceFieldRef != nil {
			c.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case f.ResourceFieldRef != nil:
		c.resourceRef(f.ResourceFieldRef, true, at.Child("resourceFieldRef"))
	default:
		c.required(at, "one of fieldRef and resourceFieldRef is required")
	}
	c.mode(at.Child("mode"), f.Mode)
}
