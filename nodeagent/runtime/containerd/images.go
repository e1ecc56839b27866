package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	ctrd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/writ-os/writ/nodeagent/image"
)

// unpackedImage is an image that containers can be made of.
type unpackedImage struct {
	image.Image
	chainID string
	config  ocispec.ImageConfig

	usersOnce sync.Mutex
	users     *users
}

// imageCache keeps what was read of images, by the digest of their manifest.
type imageCache struct {
	mu       sync.Mutex
	byDigest map[string]*unpackedImage
}

func (c *imageCache) get(digest string) *unpackedImage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byDigest[digest]
}

func (c *imageCache) put(digest string, img *unpackedImage) *unpackedImage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byDigest == nil {
		c.byDigest = map[string]*unpackedImage{}
	}
	if have := c.byDigest[digest]; have != nil {
		return have
	}
	c.byDigest[digest] = img
	return img
}

func (c *imageCache) drop(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byDigest, digest)
}

// Image finds an image that is complete and unpacked.
func (r *Runtime) Image(ctx context.Context, ref string) (image.Image, bool, error) {
	ctx, err := r.await(ctx)
	if err != nil {
		return image.Image{}, false, err
	}
	img, err := r.unpacked(ctx, ref)
	if errdefs.IsNotFound(err) {
		return image.Image{}, false, nil
	}
	if err != nil {
		return image.Image{}, false, err
	}
	return img.Image, true, nil
}

// unpacked reads an image, unpacking it where that was interrupted. The error
// of one that is not there is errdefs.ErrNotFound.
func (r *Runtime) unpacked(ctx context.Context, ref string) (*unpackedImage, error) {
	meta, err := r.client.ImageService().Get(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("find image %s: %w", ref, err)
	}
	key := meta.Name + "@" + meta.Target.Digest.String()
	if img := r.images.get(key); img != nil {
		return img, nil
	}
	img, err := r.readImage(ctx, meta)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", ref, err)
	}
	return r.images.put(key, img), nil
}

func (r *Runtime) readImage(ctx context.Context, meta images.Image) (*unpackedImage, error) {
	img := ctrd.NewImage(r.client, meta)
	ok, err := img.IsUnpacked(ctx, r.snapshotter)
	if err == nil && !ok {
		err = img.Unpack(ctx, r.snapshotter)
	}
	if err != nil {
		return nil, err
	}
	diffs, err := img.RootFS(ctx)
	if err != nil {
		return nil, err
	}
	desc, err := img.Config(ctx)
	if err != nil {
		return nil, err
	}
	b, err := content.ReadBlob(ctx, img.ContentStore(), desc)
	if err != nil {
		return nil, err
	}
	var cfg ocispec.Image
	if err := json.Unmarshal(b, &cfg); err != nil {
		return nil, fmt.Errorf("parse configuration: %w", err)
	}
	size, err := img.Size(ctx)
	if err != nil {
		return nil, err
	}
	out := &unpackedImage{chainID: identity.ChainID(diffs).String(), config: cfg.Config}
	out.Image = image.Image{
		Ref: meta.Name, ID: idOf(meta, desc.Digest.String()), Names: []string{meta.Name}, Size: size,
		User: cfg.Config.User, CreatedAt: meta.CreatedAt, Labels: meta.Labels,
	}
	return out, nil
}

// labelPulled marks images that came from a registry.
const labelPulled = "writ.dev/pulled"

// idOf is the imageID of pod status.
func idOf(meta images.Image, configDigest string) string {
	if meta.Labels[labelPulled] == "" {
		return configDigest
	}
	repo, _, _ := strings.Cut(meta.Name, "@")
	if i := strings.LastIndex(repo, ":"); i > strings.LastIndex(repo, "/") {
		repo = repo[:i]
	}
	return repo + "@" + meta.Target.Digest.String()
}

// Pull fetches and unpacks an image.
func (r *Runtime) Pull(ctx context.Context, ref string, creds []image.Credentials) (image.Image, error) {
	ctx, err := r.await(ctx)
	if err != nil {
		return image.Image{}, err
	}
	var errs []error
	for i, c := range slices.Concat(creds, r.endpoint(image.Registry(ref)).Credentials(ref), []image.Credentials{{}}) {
		pctx, moves := watchPull(ctx, pullIdle)
		resolver := docker.NewResolver(docker.ResolverOptions{Hosts: r.hostsWith(ref, c, moves.client)})
		_, err := r.client.Pull(pctx, ref, ctrd.WithResolver(resolver), ctrd.WithPullUnpack,
			ctrd.WithPullSnapshotter(r.snapshotter), ctrd.WithPullLabel(labelPulled, "true"))
		moves.end()
		if err == nil {
			img, err := r.unpacked(ctx, ref)
			if err != nil {
				return image.Image{}, err
			}
			out := img.Image
			if i < len(creds) {
				out.With = c
			}
			return out, nil
		}
		if why := context.Cause(pctx); ctx.Err() == nil && errors.Is(why, errPullStuck) {
			err = why
		}
		errs = append(errs, fmt.Errorf("pull %s: %w", ref, err))
		if ctx.Err() != nil {
			break
		}
	}
	return image.Image{}, errors.Join(errs...)
}

// Import loads an archive and unpacks its images.
func (r *Runtime) Import(ctx context.Context, rd io.Reader, labels map[string]string) error {
	ctx, err := r.await(ctx)
	if err != nil {
		return err
	}
	// The lease holds the layers until they are unpacked.
	return r.withLease(ctx, func(ctx context.Context) error {
		imgs, err := r.client.Import(ctx, rd, ctrd.WithImageLabels(labels), ctrd.WithDiscardUnpackedLayers())
		if err != nil {
			return fmt.Errorf("import images: %w", err)
		}
		for _, meta := range imgs {
			if err := ctrd.NewImage(r.client, meta).Unpack(ctx, r.snapshotter); err != nil {
				return fmt.Errorf("unpack %s: %w", meta.Name, err)
			}
		}
		return nil
	})
}

// Images returns all images. One content under several names is one image.
func (r *Runtime) Images(ctx context.Context) ([]image.Image, error) {
	ctx, err := r.await(ctx)
	if err != nil {
		return nil, err
	}
	metas, err := r.client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var out []image.Image
	at := map[string]int{}
	for _, m := range metas {
		img, err := r.unpacked(ctx, m.Name)
		if err != nil {
			r.log.Warn("read image", "image", m.Name, "err", err)
			continue
		}
		if i, ok := at[img.ID]; ok {
			out[i].Names = append(out[i].Names, m.Name)
			continue
		}
		at[img.ID] = len(out)
		one := img.Image
		one.Names = []string{m.Name}
		out = append(out, one)
	}
	return out, nil
}

// RemoveImage deletes an image under all its names.
func (r *Runtime) RemoveImage(ctx context.Context, id string) error {
	all, err := r.Images(ctx)
	if err != nil {
		return err
	}
	ctx = r.in(ctx)
	for _, img := range all {
		if img.ID != id {
			continue
		}
		for _, name := range img.Names {
			meta, err := r.client.ImageService().Get(ctx, name)
			if err == nil {
				r.images.drop(name + "@" + meta.Target.Digest.String())
				err = r.client.ImageService().Delete(ctx, name, images.SynchronousDelete())
			}
			if err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("remove image %s: %w", name, err)
			}
		}
	}
	return nil
}
