package defaults

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// pollInterval is how often a repository is read when it does not say.
const pollInterval = 15 * time.Second

func setRepositorySpec(o *v1alpha1.RepositorySpec) {
	if o.Interval == nil {
		o.Interval = &metav1.Duration{Duration: pollInterval}
	}
}
