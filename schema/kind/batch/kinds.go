// Package batch judges Jobs and CronJobs.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package batch

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	CronJob, Job,
}
