package page

import (
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

var commits = schema.ResourceFor[*v1alpha1.Commit]()

func keyOf(o metav1.Object) schema.Key { return schema.KeyOf(o) }

// pages are the links below a list.
type pages struct {
	From, To, Of   int
	Previous, Next string
}

// paged is the part of a list that a page shows. A page after the last is the
// last.
func paged[T any](all []T, page, size int, href func(int) string) ([]T, pages) {
	last := max((len(all)+size-1)/size, 1)
	page = max(min(page, last), 1)
	from, to := (page-1)*size, min(page*size, len(all))
	p := pages{From: from + 1, To: to, Of: len(all)}
	if len(all) == 0 {
		p.From = 0
	}
	if page > 1 {
		p.Previous = href(page - 1)
	}
	if page < last {
		p.Next = href(page + 1)
	}
	return all[from:to], p
}

func pageText(n int) string {
	if n <= 1 {
		return ""
	}
	return strconv.Itoa(n)
}

// link is a page with its query; empty values are left out.
func link(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return Prefix + path
	}
	return Prefix + path + "?" + q.Encode()
}

// contains says whether a text has a part, whatever the case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
