package registry

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestJSONPatchHostile: patches that the library would panic at, or that would
// grow an object without end, are the client's mistake.
func TestJSONPatchHostile(t *testing.T) {
	before := `{"data":{"a":"` + strings.Repeat("x", 1000) + `"}}`
	bomb := make([]string, 40)
	for i := range bomb {
		bomb[i] = `{"op":"copy","from":"/data","path":"/data/` + string(rune('a'+i%26)) + `"}`
	}
	for name, patch := range map[string]string{
		"a test of everything without a value": `[{"op":"test","path":""}]`,
		"copies that double the object":        "[" + strings.Join(bomb, ",") + "]",
	} {
		_, _, err := jsonPatch([]byte(before), []byte(patch), false)
		status, ok := err.(apierrors.APIStatus) //nolint:errorlint // it is what clients get
		if !ok || status.Status().Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %v", name, err)
		}
	}
}
