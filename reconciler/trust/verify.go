package trust

import (
	"bytes"
	"fmt"
	"time"
)

// State is what the signature of a commit is worth.
type State string

// The states of a commit. They are those of CommitSignature.
const (
	Verified State = "Verified" // signed by a key of the policy
	Unsigned State = "Unsigned"
	Unknown  State = "Unknown" // signed by a key that is not in the policy
	Bad      State = "Bad"     // the signature does not hold
)

// Signature is what is known of who signed a commit.
type Signature struct {
	State State
	// Signer is the name of the key in the policy, Key its fingerprint, or that
	// of an unknown key as far as the signature tells it.
	Signer, Key string
	// Message says why the state is not Verified.
	Message string
}

func unknown(key, format string, args ...any) Signature {
	return Signature{State: Unknown, Key: key, Message: fmt.Sprintf(format, args...)}
}

func badSignature(key, format string, args ...any) Signature {
	return Signature{State: Bad, Key: key, Message: fmt.Sprintf(format, args...)}
}

// Verify checks the signature of a commit object, as Git stores it without its
// header, against the keys of the policy. now is when the commit is looked at:
// a key must be valid then and at the time of the commit, so that a key that
// has ended, and may have leaked since, cannot sign commits with an old date.
func (p *Policy) Verify(sha string, raw []byte, now time.Time) (Signature, error) {
	o, err := parseObject(sha, raw)
	if err != nil {
		return Signature{}, err
	}
	return p.verify(o, now), nil
}

func (p *Policy) verify(o *object, now time.Time) Signature {
	text := bytes.TrimLeft(o.signature, " \t\r\n")
	var s Signature
	var k *Key
	switch {
	case len(text) == 0:
		return Signature{State: Unsigned, Message: "it has no signature"}
	case bytes.HasPrefix(text, []byte(sshBegin)):
		s, k = p.verifySSH(text, o.payload)
	case bytes.HasPrefix(text, []byte("-----BEGIN PGP ")):
		s, k = p.verifyPGP(text, o.payload, now)
	case bytes.HasPrefix(text, []byte("-----BEGIN SIGNED MESSAGE-----")):
		return unknown("", "it is signed with X.509, which is not supported: sign with gpg or ssh")
	default:
		return badSignature("", "its signature is of no known form")
	}
	if s.State != Verified {
		return s
	}
	if why := k.refuse(o.committer, now); why != "" {
		return Signature{State: Bad, Signer: s.Signer, Key: s.Key, Message: why}
	}
	return s
}

// refuse says why a key may not have signed for a committer at that time; ""
// when it may.
func (k *Key) refuse(c person, now time.Time) string {
	for _, t := range []struct {
		what string
		at   time.Time
	}{{"the commit is of", c.when}, {"it is now", now}} {
		switch {
		case !k.ValidAfter.IsZero() && t.at.Before(k.ValidAfter):
			return fmt.Sprintf("the key %s is valid from %s, and %s %s", k.Name, stamp(k.ValidAfter), t.what, stamp(t.at))
		case !k.ValidBefore.IsZero() && !t.at.Before(k.ValidBefore):
			return fmt.Sprintf("the key %s was valid until %s, and %s %s", k.Name, stamp(k.ValidBefore), t.what, stamp(t.at))
		}
	}
	if len(k.Mails) > 0 && !anyWildcard(k.Mails, c.mail) {
		return fmt.Sprintf("the key %s may not sign for the committer %s", k.Name, c.mail)
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
