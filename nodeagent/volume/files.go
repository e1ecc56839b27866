package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// File is one file of a volume that is made from objects.
type File struct {
	Data []byte
	Mode os.FileMode
}

// Payload are the files of a volume by their path in it.
type Payload map[string]File

const defaultMode = 0o644

// mountFiles writes a volume made from objects.
func (m *Mounter) mountFiles(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, f Facts) (time.Time, error) {
	dir := filepath.Join(m.podDir(string(pod.UID)), "volumes", kindDir(v), v.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return time.Time{}, err
	}
	if v.ConfigMap == nil {
		if err := m.mountTmpfs(dir); err != nil {
			return time.Time{}, err
		}
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			return time.Time{}, err
		}
	}
	c := &collector{m: m, pod: pod, facts: f, out: Payload{}}
	if err := c.volume(ctx, v); err != nil {
		if _, have := os.Lstat(filepath.Join(dir, dataLink)); have == nil {
			m.cfg.Log.Warn("volume is not up to date", "pod", pod.Namespace+"/"+pod.Name, "volume", v.Name, "err", err)
			return m.cfg.Now().Add(10 * time.Second), nil
		}
		return time.Time{}, err
	}
	return c.next, Write(dir, c.out, owner(pod))
}

// owner is who the files of a pod belong to: the group of its volumes, or the
// one user of all its containers.
func owner(pod *corev1.Pod) Owner {
	o := Owner{UID: -1, GID: -1}
	if g := fsGroup(pod); g != nil {
		o.GID = int(*g)
		return o
	}
	if u := onlyUser(pod); u != nil {
		o.UID = int(*u)
	}
	return o
}

// onlyUser returns the user that all containers run as, if they say so.
func onlyUser(pod *corev1.Pod) *int64 {
	var user *int64
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		var u *int64
		if sc := pod.Spec.SecurityContext; sc != nil {
			u = sc.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			u = c.SecurityContext.RunAsUser
		}
		if u == nil || (user != nil && *user != *u) {
			return nil
		}
		user = u
	}
	return user
}

// collector gathers the files of one volume.
type collector struct {
	m     *Mounter
	pod   *corev1.Pod
	facts Facts
	out   Payload
	next  time.Time
}

func (c *collector) volume(ctx context.Context, v *corev1.Volume) error {
	switch {
	case v.ConfigMap != nil:
		return c.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, mode(v.ConfigMap.DefaultMode))
	case v.Secret != nil:
		return c.secret(ctx, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, mode(v.Secret.DefaultMode))
	case v.DownwardAPI != nil:
		return c.downward(v.DownwardAPI.Items, mode(v.DownwardAPI.DefaultMode))
	}
	def := mode(v.Projected.DefaultMode)
	var errs []error
	for i := range v.Projected.Sources {
		errs = append(errs, c.source(ctx, &v.Projected.Sources[i], def))
	}
	return errors.Join(errs...)
}

func (c *collector) source(ctx context.Context, s *corev1.VolumeProjection, def os.FileMode) error {
	switch {
	case s.ConfigMap != nil:
		return c.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional, def)
	case s.Secret != nil:
		return c.secret(ctx, s.Secret.Name, s.Secret.Items, s.Secret.Optional, def)
	case s.DownwardAPI != nil:
		return c.downward(s.DownwardAPI.Items, def)
	case s.ServiceAccountToken != nil:
		return c.token(ctx, s.ServiceAccountToken, def)
	}
	return errors.New("this kind of projection is not supported by this node")
}

func mode(m *int32) os.FileMode {
	if m == nil {
		return defaultMode
	}
	return os.FileMode(*m)
}

func (c *collector) configMap(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool, def os.FileMode) error {
	cm, err := c.m.cfg.Objects.ConfigMap(ctx, c.pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	for k, v := range cm.BinaryData {
		data[k] = v
	}
	return c.keys("configmap", data, items, optional, def)
}

func (c *collector) secret(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool, def os.FileMode) error {
	s, err := c.m.cfg.Objects.Secret(ctx, c.pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	if err != nil {
		return err
	}
	return c.keys("secret", s.Data, items, optional, def)
}

// keys adds all keys of an object, or the chosen ones.
func (c *collector) keys(kind string, data map[string][]byte, items []corev1.KeyToPath, optional *bool, def os.FileMode) error {
	if len(items) == 0 {
		for k, v := range data {
			c.out[k] = File{v, def}
		}
		return nil
	}
	for _, it := range items {
		v, ok := data[it.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("%s references non-existent config key: %s", kind, it.Key)
		}
		if err := c.add(it.Path, v, it.Mode, def); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) add(path string, data []byte, m *int32, def os.FileMode) error {
	if !filepath.IsLocal(path) {
		return fmt.Errorf("path %q leads out of the volume", path)
	}
	if m != nil {
		def = os.FileMode(*m)
	}
	c.out[filepath.Clean(path)] = File{data, def}
	return nil
}

func (c *collector) downward(items []corev1.DownwardAPIVolumeFile, def os.FileMode) error {
	for i := range items {
		it := &items[i]
		var v string
		var err error
		switch {
		case it.FieldRef != nil:
			v, err = c.facts.Field(c.pod, it.FieldRef.FieldPath)
		case it.ResourceFieldRef != nil:
			v, err = c.facts.Resource(c.pod, it.ResourceFieldRef, it.ResourceFieldRef.ContainerName)
		}
		if err != nil {
			return err
		}
		if err := c.add(it.Path, []byte(v), it.Mode, def); err != nil {
			return err
		}
	}
	return nil
}

// token adds a service-account token and asks to come back before it expires.
func (c *collector) token(ctx context.Context, p *corev1.ServiceAccountTokenProjection, def os.FileMode) error {
	if c.m.cfg.Tokens == nil {
		return errors.New("service-account tokens are not available on this node")
	}
	tr := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: p.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: c.pod.Name, UID: c.pod.UID,
		},
	}}
	if p.Audience != "" {
		tr.Spec.Audiences = []string{p.Audience}
	}
	account := c.pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	token, refresh, err := c.m.tokens.get(ctx, c.m, string(c.pod.UID), c.pod.Namespace, account, tr)
	if err != nil {
		return fmt.Errorf("failed to fetch token: %w", err)
	}
	if c.next.IsZero() || refresh.Before(c.next) {
		c.next = refresh
	}
	if o := owner(c.pod); o.UID >= 0 || o.GID >= 0 {
		def = 0o600
	}
	return c.add(p.Path, []byte(token), nil, def)
}

// validName says whether a key may be a file of a volume.
func validName(path string) bool {
	return filepath.IsLocal(path) && !strings.HasPrefix(path, "..")
}
