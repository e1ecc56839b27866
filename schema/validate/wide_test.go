package validate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cuelang.org/go/encoding/json"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// TestWide: a list of thirty thousand items that is wrong throughout is judged
// in a time that does not grow with the square of it.
func TestWide(t *testing.T) {
	pods := schema.ResourceFor[*corev1.Pod]()
	for name, item := range map[string]string{
		"one name": `{"name":"a","image":"b"}`,
		"a typo":   `{"nam":"a","image":"b"}`,
		"a type":   `{"name":1,"image":"b"}`,
	} {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[%s%s]}}`, strings.Repeat(item+",", 29_999), item)
		expr, err := json.Extract("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if len(Expr(pods, expr)) == 0 {
			t.Errorf("%s: no findings", name)
		}
		if took := time.Since(began); took > time.Minute { // seconds, if it does not grow so
			t.Errorf("%s: %s", name, took)
		} else {
			t.Logf("%s: %s", name, took)
		}
	}
}
