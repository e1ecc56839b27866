// Package client is the one way in which the rest of writ reads and writes
// API objects. The same interface is served over HTTPS (Remote), by a server in
// the same process without codec or network (Local), and by a Fake for tests.
//
// Cache is the read side of controllers: a view of some resources that is
// kept up to date, with events. Over a local server it is the server's own
// snapshot, so that a process holds every object once.
//
// It owns nothing. It promises that objects it returns carry apiVersion and
// kind, and that nobody changes them after: callers that want to change one
// call DeepCopyObject first.
package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/schema"
)

// Reader reads objects from the server.
type Reader interface {
	// Get returns one object, or an error for which apierrors.IsNotFound holds.
	Get(ctx context.Context, r *schema.Resource, key schema.Key) (schema.Object, error)
	// List returns the objects that the options select, sorted by key.
	List(ctx context.Context, r *schema.Resource, o ListOptions) (List, error)
	// Watch streams changes until ctx is done or the server ends it.
	Watch(ctx context.Context, r *schema.Resource, o WatchOptions) (Watcher, error)
}

// Writer changes objects on the server. Errors are those of
// k8s.io/apimachinery/pkg/api/errors. Every write runs through admission.
type Writer interface {
	// Create stores a new object. With a subresource it posts to it:
	// "binding" (*corev1.Binding), "token", "eviction"; key names the parent.
	Create(ctx context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error)
	// Update replaces an object. If o has a resourceVersion, it must still be
	// the stored one (apierrors.IsConflict otherwise).
	Update(ctx context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error)
	// Patch changes an object by a JSON, merge, strategic merge or apply patch.
	Patch(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w WriteOptions) (schema.Object, error)
	// Delete removes an object, or asks for its graceful end where the kind has
	// one (pods), or where finalizers hold it.
	Delete(ctx context.Context, r *schema.Resource, key schema.Key, d DeleteOptions) error
}

// Interface reads and writes.
type Interface interface {
	Reader
	Writer
}

// ListOptions select objects. Zero values select all.
type ListOptions struct {
	Namespace string
	Labels    labels.Selector
	Fields    fields.Selector
}

// List is a consistent list of objects.
type List struct {
	Items           []schema.Object
	ResourceVersion string
}

// WatchOptions say what to watch and from where on. An empty ResourceVersion
// begins with an Added event for every object that exists, then one Bookmark
// with InitialEventsEnd, then changes.
type WatchOptions struct {
	ListOptions
	ResourceVersion string
}

// EventType is what happened to an object.
type EventType string

// The types of events, with the words of the wire.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
	Error    EventType = "ERROR"
)

// Event is one change. Old is the object before (nil for Added, and where
// the source of the event does not know it). Of a Deleted event Object is the
// last state. Err is set for Error only; the watch is over then, and
// apierrors.IsResourceExpired says whether to list again.
type Event struct {
	Type             EventType
	Object           schema.Object
	Old              schema.Object
	InitialEventsEnd bool
	Err              error
}

// Watcher delivers events in order. The channel is closed when the watch ends.
type Watcher interface {
	Events() <-chan Event
	Stop()
}

// WriteOptions go with a create, update or patch.
type WriteOptions struct {
	// Subresource to write: "status", "scale", "binding", "token", ...
	Subresource string
	// Key of the parent, for Create with a Subresource.
	Key schema.Key
	// FieldManager is recorded in managedFields. Default: the client's name.
	FieldManager string
	// Force takes over fields of other managers (apply only).
	Force bool
	// DryRun does everything but store the result.
	DryRun bool
	// FieldValidation is what to do with unknown and duplicate fields of a
	// patch: "Strict" refuses, "Warn" adds a warning to the context
	// (k8s.io/apiserver/pkg/warning), "Ignore" and "" drop them.
	FieldValidation string
}

// DeleteOptions go with a delete.
type DeleteOptions struct {
	GracePeriodSeconds *int64
	Propagation        metav1.DeletionPropagation
	Preconditions      *metav1.Preconditions
	// DryRun does everything but delete.
	DryRun bool
}

// Cache is a view of the cluster that is kept up to date. Reads never block
// and never fail; they may be older than a Get.
type Cache interface {
	Get(r *schema.Resource, key schema.Key) (schema.Object, bool)
	// List returns the objects of a namespace, or of all for "", by key.
	List(r *schema.Resource, namespace string) []schema.Object
	// Index returns the objects for which the named index has the value. Every
	// cache has these: IndexOwner (the UID of the controller), IndexOrphan (the
	// namespace of a pod or ReplicaSet without one), IndexNode (a pod's
	// spec.nodeName).
	Index(r *schema.Resource, index, value string) []schema.Object
	// Subscribe calls fn for every change of the resource, in order, one at a
	// time, beginning with an Added event for each object that exists. fn must
	// not block. It ends with ctx. It returns when the initial events have been
	// delivered.
	Subscribe(ctx context.Context, r *schema.Resource, fn func(Event)) error
}

// The indexes that every Cache has.
const (
	IndexOwner  = "owner"  // metadata.ownerReferences[controller=true].uid
	IndexOrphan = "orphan" // metadata.namespace of pods and ReplicaSets without a controller
	IndexNode   = "node"   // spec.nodeName of pods
)

// Verb is what an Op does.
type Verb string

// The verbs of an Op.
const (
	VerbApply  Verb = "apply"  // server-side apply of Object as FieldManager
	VerbCreate Verb = "create" // must not exist
	VerbUpdate Verb = "update" // full replacement; "status" with Subresource
	VerbDelete Verb = "delete"
)

// Op is one write of a transaction.
type Op struct {
	Verb        Verb
	Resource    *schema.Resource
	Key         schema.Key
	Object      schema.Object // not for VerbDelete
	Subresource string        // "" or "status"; "binding" with VerbCreate
	// ResourceVersion the stored object must still have. "" does not care, "0"
	// demands that there is none.
	ResourceVersion string
	FieldManager    string
	Force           bool
	// Fields are the JSON fields that Object really declares, for VerbApply:
	// the zero values of a Go type do not count as declared. JSON, from Git.
	Fields []byte
}

// Transactor stores many writes at one store revision, or none of them.
type Transactor interface {
	// Transact admits every op as if it had come alone, sees the effects of the
	// ops before it, and stores all in one transaction. It returns the objects
	// in the order of the ops (the last state of a deleted one), all unchanged
	// ops without a write. Where one is refused nothing is stored and the error
	// is a *TransactionError. With dryRun nothing is stored.
	Transact(ctx context.Context, ops []Op, dryRun bool) ([]schema.Object, error)
}

// Backend is what a server offers to clients in its own process. Calls run as
// the user that the context carries (k8s.io/apiserver/pkg/endpoints/request).
type Backend interface {
	Interface
	Transactor
	// Cache returns the server's own copy of every resource.
	Cache() Cache
}

// TransactionError says which ops of a transaction were refused and why.
type TransactionError struct {
	Errs map[int]error // by index in ops
}

// Error implements error with the first refusal and the count of the others.
func (e *TransactionError) Error() string { return transactionErrorText(e) }
