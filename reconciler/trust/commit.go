package trust

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // it is Git's name of the object
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"
)

// maxCommit bounds the bytes of a commit object.
const maxCommit = 4 << 20

// object is a commit object as Git stores it.
type object struct {
	sha       string
	parents   []string
	author    person
	committer person
	signature []byte // nil: unsigned
	payload   []byte // what the signature signs
	title     string
}

type person struct {
	name, mail string
	when       time.Time
}

func (p person) String() string { return p.name + " <" + p.mail + ">" }

// parseObject reads a commit object, without its "commit <size>" header, and
// checks that it is the one that was asked for.
func parseObject(sha string, raw []byte) (*object, error) {
	if len(raw) > maxCommit {
		return nil, fmt.Errorf("commit %s is larger than %d MiB", short(sha), maxCommit>>20)
	}
	if have := objectName(len(sha), raw); have != sha {
		return nil, fmt.Errorf("commit %s is not what its name says: its content hashes to %s", short(sha), short(have))
	}
	o := &object{sha: sha}
	if err := o.split(raw); err != nil {
		return nil, fmt.Errorf("read commit %s: %w", short(sha), err)
	}
	return o, nil
}

// objectName is the SHA-1 name of a commit, or the SHA-256 one for 64 digits.
func objectName(digits int, raw []byte) string {
	var h hash.Hash
	if digits == hex.EncodedLen(sha256.Size) {
		h = sha256.New()
	} else {
		h = sha1.New() //nolint:gosec // it is Git's name of the object
	}
	h.Write([]byte("commit " + strconv.Itoa(len(raw)) + "\x00"))
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil))
}

// split reads the headers. As in Git, the signature is the value of the gpgsig
// header of the repository's hash, and what is signed is the object without
// any header whose name begins with gpgsig.
func (o *object) split(raw []byte) error {
	want := "gpgsig "
	if len(o.sha) == hex.EncodedLen(sha256.Size) {
		want = "gpgsig-sha256 "
	}
	o.payload = make([]byte, 0, len(raw))
	var signatures, authors, committers int
	inSignature, inOther := false, false
	rest := raw
	for len(rest) > 0 {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line = rest[:i+1]
		}
		if line[0] == '\n' {
			o.payload = append(o.payload, rest...)
			o.title, _, _ = strings.Cut(string(rest[1:]), "\n")
			break
		}
		rest = rest[len(line):]
		switch {
		case line[0] == ' ' && inSignature:
			o.signature = append(o.signature, line[1:]...)
			continue
		case line[0] == ' ' && inOther:
			continue
		case line[0] == ' ':
			o.payload = append(o.payload, line...)
			continue
		}
		inSignature, inOther = bytes.HasPrefix(line, []byte(want)), bytes.HasPrefix(line, []byte("gpgsig"))
		if inSignature {
			signatures++
			o.signature = append(o.signature, line[len(want):]...)
		}
		if inOther {
			continue
		}
		o.payload = append(o.payload, line...)
		name, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		var err error
		switch name {
		case "parent":
			o.parents = append(o.parents, text)
		case "author":
			authors++
			o.author, err = parsePerson(text)
		case "committer":
			committers++
			o.committer, err = parsePerson(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	switch {
	case signatures > 1:
		return errors.New("it has more than one signature")
	case authors != 1 || committers != 1:
		return errors.New("it has not one author and one committer")
	}
	for _, p := range o.parents {
		if _, err := hex.DecodeString(p); err != nil || len(p) != len(o.sha) {
			return errors.New("a parent of it is no commit")
		}
	}
	return nil
}

// parsePerson reads "Name <mail> seconds zone".
func parsePerson(text string) (person, error) {
	open, end := strings.IndexByte(text, '<'), strings.LastIndexByte(text, '>')
	if open < 0 || end < open {
		return person{}, errors.New("it has no mail address")
	}
	p := person{name: strings.TrimSpace(text[:open]), mail: text[open+1 : end]}
	seconds, _, _ := strings.Cut(strings.TrimSpace(text[end+1:]), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return person{}, errors.New("it has no time")
	}
	p.when = time.Unix(n, 0).UTC()
	return p, nil
}

// short is a commit as findings name it.
func short(sha string) string { return sha[:min(len(sha), 12)] }
