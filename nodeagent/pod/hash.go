package pod

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Hash identifies what of a container's definition makes it start anew when it
// changes: its name and image, as upstream.
func Hash(c *corev1.Container) string {
	h := fnv.New32a()
	// Marshalling two strings cannot fail.
	b, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	h.Write(b)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
