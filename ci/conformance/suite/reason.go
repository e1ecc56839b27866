package main

import "strings"

// about is the part of the table that explains it.
const about = `Specs run on one node, against ` + "`writ up`" + ` as it comes; one of them wants two nodes. Images are not pulled: agnhost was
built here from upstream's sources (its binary alone, no shell or tools), and stands in for pause, too. Specs that need
other images (busybox, nginx, httpd, the sample API server) cannot run so.
`

// images are parts of the names of specs, and the images that those need
// besides agnhost.
var images = []struct{ part, why string }{
	{"Aggregator", "needs the image of the sample API server"},
	{"AdmissionWebhook", "needs pods with the agnhost image"},
	{"CustomResourceConversionWebhook", "needs pods with the agnhost image"},
	{"should mount an API token", "needs the busybox image"},
	{"compacted away", "waits some minutes for a compaction; run it by name"},
	{"[Serial]", "not asked for yet"},
	{"Update Demo", "needs the httpd image"},
	{"Kubectl logs", "needs pods with images"},
	{"Guestbook application", "needs pods with images of an application"},
	{"Kubectl", "needs pods with images"},
	{"Garbage collector", "needs pods"},
	{"ServiceAccounts ServiceAccountIssuerDiscovery", "needs pods with the agnhost image"},
}

// reason is why a spec has not run.
func reason(name string) string {
	for _, i := range images {
		if strings.Contains(name, i.part) {
			return i.why
		}
	}
	return "not asked for yet"
}
