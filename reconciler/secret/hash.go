package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// ObjectHash is what an inventory keeps of object index (from 0) of an
// encrypted file, in place of a hash of what the object says. A hash of the
// plain text would let anybody who reads the inventory try out passwords
// against it; this one is made of the Git hash of the encrypted file alone,
// which is public, so it tells nothing. It changes whenever the file does,
// also when the file was only encrypted anew: what was declared is then
// compared with the cluster, field by field, and found to be the same.
func ObjectHash(blob string, index int) string {
	sum := sha256.Sum256([]byte("encrypted\x00" + blob + "\x00" + strconv.Itoa(index)))
	return hex.EncodeToString(sum[:12])
}
