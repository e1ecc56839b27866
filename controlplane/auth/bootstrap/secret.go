package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// Expired says whether a bootstrap token is over: its expiration, in RFC 3339,
// has passed or cannot be read. One without an expiration never is.
func Expired(s *corev1.Secret, now time.Time) bool {
	text := string(s.Data[bootstrapapi.BootstrapTokenExpirationKey])
	if text == "" {
		return false
	}
	t, err := time.Parse(time.RFC3339, text)
	return err != nil || !now.Before(t)
}

// Groups returns the groups that a token gives, sorted: system:bootstrappers
// and its auth-extra-groups.
func Groups(s *corev1.Secret) ([]string, error) {
	groups := []string{bootstrapapi.BootstrapDefaultGroup}
	extra := string(s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey])
	if extra == "" {
		return groups, nil
	}
	for g := range strings.SplitSeq(extra, ",") {
		if err := bootstraputil.ValidateBootstrapGroupName(g); err != nil {
			return nil, fmt.Errorf("read %s: %w", bootstrapapi.BootstrapTokenExtraGroupsKey, err)
		}
		groups = append(groups, g)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
