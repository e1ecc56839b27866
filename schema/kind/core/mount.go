package core

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (p *pod) mounts(ctr *corev1.Container, at *field.Path) {
	devices, paths := sets.New[string](), sets.New[string]()
	for _, d := range ctr.VolumeDevices {
		devices.Insert(d.Name)
		paths.Insert(d.DevicePath)
	}
	seen := sets.New[string]()
	for i, m := range ctr.VolumeMounts {
		idx := at.Index(i)
		p.nonEmpty(idx.Child("name"), m.Name)
		if _, ok := p.volumes[m.Name]; !ok {
			p.add(field.NotFound(idx.Child("name"), m.Name))
		}
		p.nonEmpty(idx.Child("mountPath"), m.MountPath)
		if seen.Has(m.MountPath) {
			p.invalid(idx.Child("mountPath"), m.MountPath, "must be unique")
		}
		seen.Insert(m.MountPath)
		if devices.Has(m.Name) {
			p.invalid(idx.Child("name"), m.Name, "must not already exist in volumeDevices")
		}
		if paths.Has(m.MountPath) {
			p.invalid(idx.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices")
		}
		p.mountOptions(ctr, &m, at, idx)
	}
}

// mountOptions checks how a volume is mounted. Upstream says of most of it that
// it is in the list, not where.
func (p *pod) mountOptions(ctr *corev1.Container, m *corev1.VolumeMount, list, at *field.Path) {
	if m.SubPath != "" {
		p.descending(list.Child("subPath"), m.SubPath)
	}
	if m.SubPathExpr != "" {
		if m.SubPath != "" {
			p.invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		p.descending(list.Child("subPathExpr"), m.SubPathExpr)
	}
	if mp := m.MountPropagation; mp != nil {
		at := list.Child("mountPropagation")
		oneOf(&p.check, at, *mp, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		sc := ctr.SecurityContext
		if *mp == corev1.MountPropagationBidirectional && (sc == nil || sc.Privileged == nil || !*sc.Privileged) {
			p.forbid(at, "Bidirectional mount propagation is available only to privileged containers")
		}
	}
	if r := m.RecursiveReadOnly; r != nil && *r != corev1.RecursiveReadOnlyDisabled {
		at := list.Child("recursiveReadOnly")
		if *r != corev1.RecursiveReadOnlyEnabled && *r != corev1.RecursiveReadOnlyIfPossible {
			oneOf(&p.check, at, *r, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
			return
		}
		if !m.ReadOnly {
			p.forbid(at, "may only be specified when readOnly is true")
		}
		if mp := m.MountPropagation; mp != nil && *mp != corev1.MountPropagationNone {
			p.forbid(at, "may only be specified when mountPropagation is None or not specified")
		}
	}
}

func (p *pod) devices(ctr *corev1.Container, at *field.Path) {
	mounts, mountPaths := sets.New[string](), sets.New[string]()
	for _, m := range ctr.VolumeMounts {
		mounts.Insert(m.Name)
		mountPaths.Insert(m.MountPath)
	}
	names, paths := sets.New[string](), sets.New[string]()
	for i, d := range ctr.VolumeDevices {
		name, dev := at.Index(i).Child("name"), at.Index(i).Child("devicePath")
		source, ok := p.volumes[d.Name]
		p.nonEmpty(name, d.Name)
		if names.Has(d.Name) {
			p.invalid(name, d.Name, "must be unique")
		}
		if ok && source.PersistentVolumeClaim == nil && source.Ephemeral == nil {
			p.invalid(name, d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		if !ok {
			p.add(field.NotFound(name, d.Name))
		}
		p.nonEmpty(dev, d.DevicePath)
		if paths.Has(d.DevicePath) {
			p.invalid(dev, d.DevicePath, "must be unique")
		}
		if backsteps(d.DevicePath) {
			p.invalid(dev, d.DevicePath, "can not contain backsteps ('..')")
		} else {
			paths.Insert(d.DevicePath)
		}
		if mounts.Has(d.Name) {
			p.invalid(name, d.Name, "must not already exist in volumeMounts")
		}
		if mountPaths.Has(d.DevicePath) {
			p.invalid(dev, d.DevicePath, "must not already exist as a path in volumeMounts")
		}
		if d.Name != "" {
			names.Insert(d.Name)
		}
	}
}

func backsteps(p string) bool {
	for step := range strings.SplitSeq(p, "/") {
		if step == ".." {
			return true
		}
	}
	return false
}

func (c *check) noBacksteps(at *field.Path, p string) {
	if backsteps(p) {
		c.invalid(at, p, "must not contain '..'")
	}
}

// descending is a path that leads down from where one is.
func (c *check) descending(at *field.Path, p string) {
	if path.IsAbs(p) {
		c.invalid(at, p, "must be a relative path")
	}
	c.noBacksteps(at, p)
}

// unreserved is a descending path that is no name of the node agent's own.
func (c *check) unreserved(at *field.Path, p string) {
	c.descending(at, p)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		c.invalid(at, p, "must not start with '..'")
	}
}
