package registry

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Who writes the status of a Commit from a copy of its own does not take away
// what others have noted in the metadata meanwhile.
func TestOwnStatusKeepsMetadata(t *testing.T) {
	g, _ := open(t, t.TempDir())
	commits, at := schema.ResourceFor[*v1alpha1.Commit](), schema.Key{Name: "shop-0123456789ab"}
	mine := mustCreate(t, g, &v1alpha1.Commit{ObjectMeta: metav1.ObjectMeta{Name: at.Name}, Spec: v1alpha1.CommitSpec{Repository: "shop", SHA: "0123456789abcdef0123456789abcdef01234567"}}).DeepCopyObject().(*v1alpha1.Commit)
	note := []byte(`{"metadata":{"annotations":{"notified.writ.dev/chat":"Applied@1"}}}`)
	if _, err := g.Patch(person, commits, at, types.MergePatchType, note, client.WriteOptions{FieldManager: "notes"}); err != nil {
		t.Fatal(err)
	}
	mine.ResourceVersion = ""
	mine.Status.Phase = v1alpha1.CommitHealthy
	o, err := g.Update(person, commits, mine, client.WriteOptions{Subresource: "status"})
	if err != nil {
		t.Fatal(err)
	}
	if c := o.(*v1alpha1.Commit); c.Annotations["notified.writ.dev/chat"] != "Applied@1" || c.Status.Phase != v1alpha1.CommitHealthy {
		t.Errorf("annotations %v, phase %s", c.Annotations, c.Status.Phase)
	}
}
