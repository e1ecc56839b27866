package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is writ.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "writ.dev", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Cluster{}, &ClusterList{},
		&Repository{}, &RepositoryList{},
		&Commit{}, &CommitList{},
		&Inventory{}, &InventoryList{},
		&NodePool{}, &NodePoolList{},
		&NodeImage{}, &NodeImageList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
