package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Annotations that say how the reconciler treats one object. They are written
// in the manifest.
const (
	// WaveAnnotation is a number: objects of a higher wave are applied when all
	// objects of lower waves are healthy. Default 0.
	WaveAnnotation = "writ.dev/wave"
	// DependsOnAnnotation names objects that must be healthy before this one
	// is applied: "Deployment/shop/db, ConfigMap/shop/conf".
	DependsOnAnnotation = "writ.dev/depends-on"
	// ReplaceAnnotation with the value "allowed" lets a commit delete the
	// object and make it anew where a field cannot be changed.
	ReplaceAnnotation = "writ.dev/replace"
	// PruneAnnotation with the value "disabled" leaves the object in the
	// cluster when Git does not declare it any more.
	PruneAnnotation = "writ.dev/prune"
	// ProtectAnnotation with the value "true" refuses commits that delete or
	// replace the object.
	ProtectAnnotation = "writ.dev/protect"
	// MoveFromAnnotation names the repository that an object is taken over
	// from, so that it changes hands without being deleted.
	MoveFromAnnotation = "writ.dev/move-from"
	// AcceptAnnotation names findings about the object that its author accepts,
	// so that they are warnings: the paths of fields that this cluster does not
	// honour ("spec, spec.template.spec.hostUsers"), and PodSecurity.
	AcceptAnnotation = "writ.dev/accept"
)

// The words that Flux and Argo CD have for the same, read besides.
const (
	FluxPruneAnnotation   = "kustomize.toolkit.fluxcd.io/prune"
	FluxForceAnnotation   = "kustomize.toolkit.fluxcd.io/force"
	ArgoWaveAnnotation    = "argocd.argoproj.io/sync-wave"
	ArgoOptionsAnnotation = "argocd.argoproj.io/sync-options"
)

// Annotations on a Node by which the nodepool controller says what the node's
// operating system shall become. The controller alone writes them, the node
// reads them and may not change them.
//
// DesiredImage is the order that all else hangs on: without it the agent keeps
// the image that runs, throws away what it has staged, forgets a failure
// (UpdateFailedAnnotation) and says UpdateIdle. The controller takes it away
// before it names another image, and again when the node has arrived.
const (
	// DesiredImageAnnotation is the name of a NodeImage: fetch it, check it
	// against its digest, and write it to the slot that is not running, now.
	DesiredImageAnnotation = "writ.dev/desired-image"
	// DesiredKernelArgumentsAnnotation are the kernel arguments to stage with the
	// desired image, joined by spaces. It comes and goes with DesiredImage.
	DesiredKernelArgumentsAnnotation = "writ.dev/desired-kernel-arguments"
	// RebootAnnotation is the name of the NodeImage to reboot into, now. It is
	// set when the node is cordoned and drained. An agent that has another image
	// staged, or none, refuses by UpdateFailedAnnotation.
	RebootAnnotation = "writ.dev/reboot"
	// CordonedByAnnotation has the value CordonedByNodePool where the controller
	// made the node unschedulable, so that the cordon of a person stays.
	CordonedByAnnotation = "writ.dev/cordoned-by"
	// UpdateStepAnnotation is the controller's own note of what it does with the
	// node, and since when: "Draining 2026-11-22T02:00:00Z". Nodes with one are in
	// work.
	UpdateStepAnnotation = "writ.dev/update-step"
)

// CordonedByNodePool is the value of CordonedByAnnotation.
const CordonedByNodePool = "nodepool"

// Annotations on a Node by which its agent says how it is doing. The agent
// alone writes them. A node without ImageAnnotation was not made from an image
// of ours: the controller leaves it alone.
const (
	// ImageAnnotation is the version that runs: spec.version of a NodeImage.
	ImageAnnotation = "writ.dev/image"
	// KernelArgumentsAnnotation is KernelArgumentsHash of the arguments that the
	// running kernel was given from the pool.
	KernelArgumentsAnnotation = "writ.dev/kernel-arguments"
	// UpdatePhaseAnnotation is an UpdatePhase.
	UpdatePhaseAnnotation = "writ.dev/update-phase"
	// UpdateMessageAnnotation says in a sentence what the phase means here.
	UpdateMessageAnnotation = "writ.dev/update-message"
	// UpdateFailedAnnotation is the name of the NodeImage that failed here: it
	// could not be staged, or did not boot to a healthy node and the one before
	// runs again. What another try may mend (the source does not answer) is no
	// failure.
	UpdateFailedAnnotation = "writ.dev/update-failed"
)

// AgentAnnotations are those of writ.dev/ that a node may write on itself. What
// the others of that domain say to nodes is not theirs to change.
var AgentAnnotations = []string{ImageAnnotation, KernelArgumentsAnnotation, UpdatePhaseAnnotation, UpdateMessageAnnotation, UpdateFailedAnnotation}

// UpdatePhase is how far a node is on the way to its desired image.
type UpdatePhase string

// The phases in their order. Staged ends the preparation; Rebooting and Trying
// (booted, not yet found good) end in Idle, when the image is kept, or in
// Failed.
const (
	UpdateIdle        UpdatePhase = "Idle"
	UpdateDownloading UpdatePhase = "Downloading"
	UpdateWriting     UpdatePhase = "Writing"
	UpdateStaged      UpdatePhase = "Staged"
	UpdateRebooting   UpdatePhase = "Rebooting"
	UpdateTrying      UpdatePhase = "Trying"
	UpdateFailed      UpdatePhase = "Failed"
)

// Annotations that people write.
const (
	// RetryAnnotation on a NodeImage forgets that it failed, once for each new
	// value: a date, a word.
	RetryAnnotation = "writ.dev/retry"
	// EvictableAnnotation with the value "true" on a pod that no controller
	// owns lets a drain evict it. Nobody makes it anew elsewhere.
	EvictableAnnotation = "writ.dev/evictable"
)

// ManifestAnnotations are those of writ.dev/ that people write in manifests; in
// a manifest any other means nothing.
var ManifestAnnotations = []string{WaveAnnotation, DependsOnAnnotation, ReplaceAnnotation, PruneAnnotation, ProtectAnnotation, MoveFromAnnotation,
	RetryAnnotation, EvictableAnnotation, AcceptAnnotation,
	"writ.dev/substitute",      // no variables in the object (reconciler/render)
	"writ.dev/metadata-egress", // pods of the Namespace reach metadata services (nodeagent)
	"writ.dev/given-up",        // the Node's machine does not come back (controllers/certificates)
}

// DeclaredCause is the type of the cause of a refusal by the write guard: what
// was to be changed or deleted is Git's. Loops tell it from other refusals,
// because trying again does not help.
const DeclaredCause metav1.CauseType = "DeclaredInGit"
