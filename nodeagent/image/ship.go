package image

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Shipped is a store in which the images that ship with writ can be had: they are
// made when one of them is pulled, and not before. To make them costs reading the
// binary three times and twice its size on the disk and in the kernel's caches,
// which nodes that run none of them do without.
type Shipped struct {
	Store
	binary string
	log    *slog.Logger

	making sync.Mutex // they are made all at once
}

// WithShipped returns a store that makes the shipped images from a binary.
func WithShipped(store Store, binary string, log *slog.Logger) *Shipped {
	return &Shipped{Store: store, binary: binary, log: log}
}

// Image finds an image. A shipped one that another binary made is not the one
// that is asked for.
func (s *Shipped) Image(ctx context.Context, ref string) (Image, bool, error) {
	img, ok, err := s.Store.Image(ctx, ref)
	if err != nil || !ok || !isShipped(ref) {
		return img, ok, err
	}
	source, err := sourceAt(s.binary)
	return img, err == nil && img.Labels[labelSource] == source, err
}

// Pull makes the shipped images when it is one of them, and pulls all others.
func (s *Shipped) Pull(ctx context.Context, ref string, creds []Credentials) (Image, error) {
	if !isShipped(ref) {
		return s.Store.Pull(ctx, ref, creds)
	}
	s.making.Lock()
	defer s.making.Unlock()
	begin := time.Now()
	made, err := ImportShipped(ctx, s.Store, s.binary)
	if err != nil {
		return Image{}, err
	}
	if made {
		s.log.Info("made shipped images", "took", time.Since(begin).Round(time.Millisecond))
	}
	img, _, err := s.Store.Image(ctx, ref)
	return img, err
}

func isShipped(ref string) bool {
	return slices.ContainsFunc(shippedImages(), func(i shipped) bool { return i.ref == ref })
}
