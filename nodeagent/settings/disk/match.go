package disk

import (
	"regexp"
	"slices"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Match is what a disk must be like: all that is said.
type Match = v1alpha1.NodeDiskMatch

// Matches says whether a disk is like that. A bound that cannot be read holds for
// none.
func Matches(m *Match, d *Disk) bool {
	bounds, err := v1alpha1.SizeBounds(m.Size)
	if err != nil || m.Empty() {
		return false
	}
	for _, b := range bounds {
		if !b.Holds(d.Bytes) {
			return false
		}
	}
	return word(m.Model, d.Model) && word(m.Serial, d.Serial) && word(m.WWID, d.WWID) && word(m.Path, d.Names...) &&
		(m.Rotational == nil || *m.Rotational == d.Rotational)
}

// word says whether one of some is like a pattern; "" is like all.
func word(pattern string, is ...string) bool {
	if pattern == "" {
		return true
	}
	re := "^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) + "$"
	like, err := regexp.Compile(re)
	return err == nil && slices.ContainsFunc(is, like.MatchString)
}
