package v1alpha1

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
)

// The words that Flux and Argo CD have for the same, read besides.
const (
	FluxPruneAnnotation   = "kustomize.toolkit.fluxcd.io/prune"
	FluxForceAnnotation   = "kustomize.toolkit.fluxcd.io/force"
	ArgoWaveAnnotation    = "argocd.argoproj.io/sync-wave"
	ArgoOptionsAnnotation = "argocd.argoproj.io/sync-options"
)
