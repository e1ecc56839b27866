package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// annotationPrefix with the name of a notification is, on a Commit, the Mark
// that its receiver was told of last, and on a Repository the moment from
// which on the receiver is told of commits, in microseconds since 1970.
const annotationPrefix = "notified.writ.dev/"

// annotation is the key for a notification. A name that cannot be in a key is
// there by its hash.
func annotation(notification string) string {
	if len(validation.IsQualifiedName(annotationPrefix+notification)) == 0 {
		return annotationPrefix + notification
	}
	sum := sha256.Sum256([]byte(notification))
	return annotationPrefix + "sha256-" + hex.EncodeToString(sum[:16])
}

// toldOf reads what a receiver was told of last.
func toldOf(c *v1alpha1.Commit, notification string) Mark {
	return ParseMark(c.Annotations[annotation(notification)])
}

// sinceOf reads from when on a receiver is told; false when that is not
// decided yet.
func sinceOf(r *v1alpha1.Repository, notification string) (int64, bool) {
	at, err := strconv.ParseInt(r.Annotations[annotation(notification)], 10, 64)
	return at, err == nil
}

// left are the annotations of a Repository for notifications that are not
// declared any more.
func left(r *v1alpha1.Repository, declared []v1alpha1.Notification) []string {
	keep := map[string]bool{}
	for i := range declared {
		keep[annotation(declared[i].Name)] = true
	}
	var out []string
	for k := range r.Annotations {
		if strings.HasPrefix(k, annotationPrefix) && !keep[k] {
			out = append(out, k)
		}
	}
	return out
}

// annotate sets annotations of an object, or takes them away where the value
// is nil. An object that is gone needs none.
func annotate[T schema.Object](ctx context.Context, c client.Writer, name string, values map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	_, err = c.Patch(ctx, schema.ResourceFor[T](), schema.Key{Name: name}, types.MergePatchType, patch, client.WriteOptions{FieldManager: manager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// manager is the field manager of the annotations.
const manager = "writ-notify"
