// Package image brings container images onto the node: it decides whether to
// pull, pulls each reference once at a time with the right credentials, makes
// the images that ship with writ from the running binary, and chooses which
// unused images make room when the disk is full.
//
// Store is where images live; runtime/containerd and runtime/fake have one.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// Image is an image on this node.
type Image struct {
	// Ref is the normalised reference it was asked for by.
	Ref string
	// ID is what pod status shows as imageID: the repository digest of a pulled
	// image, the digest of the configuration of an imported one.
	ID    string
	Names []string
	Size  int64
	// User is the user of the image's configuration, for runAsNonRoot.
	User      string
	CreatedAt time.Time
	Labels    map[string]string
	// With are, of an image just pulled, the pod's credentials that the registry
	// took; empty when it was pulled by those of the node, or by none.
	With Credentials
}

// Credentials for a registry.
type Credentials struct{ Username, Password string }

// Store keeps images.
type Store interface {
	// Image finds an image that is complete and unpacked.
	Image(ctx context.Context, ref string) (Image, bool, error)
	// Pull fetches and unpacks an image. The credentials are tried in order.
	Pull(ctx context.Context, ref string, creds []Credentials) (Image, error)
	// Import loads a docker or OCI archive under the names it carries.
	Import(ctx context.Context, r io.Reader, labels map[string]string) error
	// Images returns all images.
	Images(ctx context.Context) ([]Image, error)
	// RemoveImage deletes an image under all its names.
	RemoveImage(ctx context.Context, id string) error
}

// ErrInvalidName says that a reference cannot be parsed.
var ErrInvalidName = errors.New("invalid image name")

// Normalize gives a reference its registry and tag: "nginx" becomes
// "docker.io/library/nginx:latest".
func Normalize(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", fmt.Errorf("%w: %q: %w", ErrInvalidName, ref, err)
	}
	return named.String(), nil
}

// Registry returns the host of a normalised reference.
func Registry(ref string) string {
	host, _, _ := strings.Cut(ref, "/")
	return host
}

// MustPull decides by the pull policy whether to pull. The error of a policy
// that forbids it is ErrNeverPull.
func MustPull(p corev1.PullPolicy, present bool) (bool, error) {
	switch {
	case p == corev1.PullNever && !present:
		return false, ErrNeverPull
	case p == corev1.PullNever:
		return false, nil
	case p == corev1.PullAlways:
		return true, nil
	}
	return !present, nil
}

// ErrNeverPull says that an image is absent and its policy is Never.
var ErrNeverPull = errors.New("image is not present with pull policy of Never")
