package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeImage is one version of the operating system of nodes: where it lies,
// and the digest that tells it from every other. Nodes run it when a NodePool
// names it.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodeImageSpec   `json:"spec"`
	Status NodeImageStatus `json:"status,omitempty"`
}

// NodeImageSpec says what the image is. Nothing of it but the source may
// change: another digest is another image, under another name.
type NodeImageSpec struct {
	// Version is the version that the image says of itself, without a leading
	// "v": 1.4.2 (semver.org 2.0.0). A node that runs it reports it.
	Version string `json:"version"`
	// Source is where nodes fetch the update bundle.
	Source NodeImageSource `json:"source"`
	// Digest of the bundle: "sha256:" and 64 hexadecimal digits. What a source
	// sends is trusted by this alone.
	Digest string `json:"digest"`
	// Size of the bundle in bytes. A node stops reading there.
	Size *int64 `json:"size,omitempty"`
	// Arch is the machine that the image is for: amd64 or arm64. Default amd64.
	Arch string `json:"arch,omitempty"`
}

// NodeImageSource is where a bundle lies.
type NodeImageSource struct {
	// URL is https:// or http://; the digest protects the content either way.
	URL string `json:"url"`
}

// NodeImageStatus is what is known of the image.
type NodeImageStatus struct {
	// ObservedGeneration is the generation that the rest speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Failed are the nodes on which the image failed, the first one first, at
	// most 20. While there is one no pool brings the image to a node.
	Failed []NodeImageFailure `json:"failed,omitempty"`
	// Retried is the last value of the annotation writ.dev/retry that was heeded.
	Retried string `json:"retried,omitempty"`
	// Conditions: Ready (no node has failed with the image).
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The reasons of a NodeImageFailure.
const (
	// ReasonImageFailed: the agent could not stage the image, or it did not boot
	// to a healthy node and the one before runs again.
	ReasonImageFailed = "ImageFailed"
	// ReasonNodeLost: the node went to boot the image and did not come back to
	// health in time.
	ReasonNodeLost = "NodeLost"
	// ReasonKernelArgumentsFailed: the image ran, and failed with other kernel
	// arguments. Only pools with these are stopped.
	ReasonKernelArgumentsFailed = "KernelArgumentsFailed"
)

// NodeImageFailure is a node on which the image failed.
type NodeImageFailure struct {
	Node string `json:"node"`
	// Reason is ImageFailed, NodeLost or KernelArgumentsFailed.
	Reason string `json:"reason"`
	// Message is what the node said last.
	Message string `json:"message,omitempty"`
	// KernelArguments are those that failed, joined by spaces, where the reason is
	// KernelArgumentsFailed.
	KernelArguments string      `json:"kernelArguments,omitempty"`
	Time            metav1.Time `json:"time"`
}

// Bad returns the failure that keeps the image from nodes of pools with these
// kernel arguments, joined by spaces; nil when none does.
func (i *NodeImage) Bad(kernelArguments string) *NodeImageFailure {
	for n := range i.Status.Failed {
		f := &i.Status.Failed[n]
		if f.Reason != ReasonKernelArgumentsFailed || f.KernelArguments == kernelArguments {
			return f
		}
	}
	return nil
}

// NodeImageList is a list of NodeImage.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeImage `json:"items"`
}
