package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The frame of an encrypted value: ENC[AES256_GCM,data:…,iv:…,tag:…,type:…].
const (
	sealedPrefix = "ENC[AES256_GCM,data:"
	keySize      = 32
	maxNonce     = 64
)

// sealed is an encrypted value.
type sealed struct {
	data, iv, tag []byte
	typ           string
}

// looksSealed says whether a text is meant to be an encrypted value.
func looksSealed(s string) bool { return strings.HasPrefix(s, sealedPrefix) }

// parseSealed reads an encrypted value. Only line breaks may follow it, as
// block scalars have them.
func parseSealed(s string) (sealed, bool) {
	var out sealed
	rest, ok := strings.CutPrefix(strings.TrimRight(s, "\n"), sealedPrefix)
	rest, closed := strings.CutSuffix(rest, "]")
	if !ok || !closed {
		return out, false
	}
	data, rest, ok1 := strings.Cut(rest, ",iv:")
	iv, rest, ok2 := strings.Cut(rest, ",tag:")
	tag, typ, ok3 := strings.Cut(rest, ",type:")
	if !ok1 || !ok2 || !ok3 {
		return out, false
	}
	var err1, err2, err3 error
	out.data, err1 = base64.StdEncoding.DecodeString(data)
	out.iv, err2 = base64.StdEncoding.DecodeString(iv)
	out.tag, err3 = base64.StdEncoding.DecodeString(tag)
	out.typ = typ
	return out, err1 == nil && err2 == nil && err3 == nil && len(out.iv) > 0 && len(out.iv) <= maxNonce
}

// value is a decrypted scalar.
type value struct {
	text string // what the plain file says
	str  bool   // it is a string and is written with quotes
	mac  []byte // what the MAC covers
	note bool   // it is a comment, which SOPS writes as an item of a list
}

var (
	errAuth = errors.New("it was not encrypted with the key of this file or at this place, or was changed afterwards")
	errType = errors.New("its type is not one of str, int, float, bool, bytes and time")
	errForm = errors.New("it is no encrypted value of the form ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]")
)

// opener decrypts the values of one file.
type opener struct{ block cipher.Block }

func newOpener(key []byte) (*opener, error) {
	if len(key) != keySize {
		return nil, errors.New("the data key has not 32 bytes")
	}
	b, err := aes.NewCipher(key)
	return &opener{b}, err
}

// raw decrypts one value. aad is its place in the file.
func (o *opener) raw(s sealed, aad string) ([]byte, error) {
	gcm, err := cipher.NewGCMWithNonceSize(o.block, len(s.iv))
	if err != nil {
		return nil, errForm
	}
	box := make([]byte, 0, len(s.data)+len(s.tag))
	box = append(append(box, s.data...), s.tag...)
	plain, err := gcm.Open(box[:0], s.iv, box, []byte(aad))
	if err != nil {
		return nil, errAuth
	}
	return plain, nil
}

// open decrypts a scalar and gives it its type. Its errors never quote it.
func (o *opener) open(text, aad string) (value, error) {
	s, ok := parseSealed(text)
	if !ok {
		return value{}, errForm
	}
	plain, err := o.raw(s, aad)
	if err != nil {
		return value{}, err
	}
	return typed(s.typ, string(plain))
}

// typed is a value as its type says it is to be read. The spellings are those
// of SOPS.
func typed(typ, plain string) (value, error) {
	switch typ {
	case "str", "bytes":
		if !utf8.ValidString(plain) {
			return value{}, errors.New("it is no text in UTF-8; a Secret holds such bytes in base64 under data")
		}
		return value{text: plain, str: true, mac: []byte(plain)}, nil
	case "int":
		n, err := strconv.Atoi(plain)
		text := strconv.Itoa(n)
		return value{text: text, mac: []byte(text)}, typeError(err)
	case "float":
		f, err := strconv.ParseFloat(plain, 64)
		text := strconv.FormatFloat(f, 'f', -1, 64)
		return value{text: text, mac: []byte(text), str: math.IsNaN(f) || math.IsInf(f, 0)}, typeError(err)
	case "bool":
		b, err := strconv.ParseBool(plain)
		return value{text: strconv.FormatBool(b), mac: macBool(b)}, typeError(err)
	case "time":
		var t time.Time
		if t.UnmarshalText([]byte(plain)) != nil {
			return value{}, errors.New("its text is not of its type")
		}
		mac, err := t.MarshalText()
		return value{text: string(mac), str: true, mac: mac}, typeError(err)
	case "comment":
		return value{note: true}, nil
	}
	return value{}, errType
}

func typeError(err error) error {
	if err != nil {
		return errors.New("its text is not of its type") // err quotes the text
	}
	return nil
}

func macBool(b bool) []byte {
	if b {
		return []byte("True")
	}
	return []byte("False")
}
