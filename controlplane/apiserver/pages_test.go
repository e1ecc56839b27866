package apiserver

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	"github.com/writ-os/writ/schema"
)

func rawToken(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// TestDecodeToken holds our reading of tokens against upstream's own.
func TestDecodeToken(t *testing.T) {
	for text, want := range map[string]schema.Key{
		`{"v":"meta.k8s.io/v1","rv":7,"start":"default/a\u0000"}`:  {Namespace: "default", Name: "a\x00"},
		`{"v":"meta.k8s.io/v1","rv":-1,"start":"default/a\u0000"}`: {Namespace: "default", Name: "a\x00"},
		`{"v":"meta.k8s.io/v1","rv":-9,"start":"default/a"}`:       {Namespace: "default", Name: "a"},
		`{"v":"meta.k8s.io/v1","rv":7,"start":"node\u0000"}`:       {Name: "node\x00"},
		`{"v":"meta.k8s.io/v1","rv":7,"start":"/node\u0000"}`:      {Name: "node\x00"},
	} {
		v, from, err := decodeToken(rawToken(text))
		_, theirs, theirErr := storage.DecodeContinue(rawToken(text), "/")
		if err != nil || theirErr != nil || from != want || v != theirs {
			t.Errorf("%s: %d %q %v, want %q; upstream: %d %v", text, v, from, err, want, theirs, theirErr)
		}
	}
	for _, token := range []string{
		"x", "%", "****", rawToken(""), rawToken("{"), rawToken("[]"), rawToken("null"), rawToken(`{"v":"meta.k8s.io/v1"}`),
		rawToken(`{"v":"meta.k8s.io/v2","rv":7,"start":"a"}`), rawToken(`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`),
		rawToken(`{"v":"meta.k8s.io/v1","rv":7}`), rawToken(`{"v":"meta.k8s.io/v1","rv":7.5,"start":"a"}`),
		rawToken(`{"v":"meta.k8s.io/v1","rv":99999999999999999999,"start":"a"}`), rawToken(`{"v":"meta.k8s.io/v1","rv":"7","start":"a"}`),
		rawToken(`{"v":"meta.k8s.io/v1","rv":7,"start":"../secrets/a"}`), rawToken(`{"v":"meta.k8s.io/v1","rv":-1,"start":"a/../../b"}`),
		rawToken(`{"v":"meta.k8s.io/v1","rv":7,"start":"a//b"}`), rawToken(`{"v":"meta.k8s.io/v1","rv":7,"start":"a/"}`),
		rawToken(`{"v":"meta.k8s.io/v1","rv":7,"start":"//a"}`), rawToken(`{"v":"meta.k8s.io/v1","rv":7,"start":"/"}`),
	} {
		_, _, err := decodeToken(token)
		_, _, theirs := storage.DecodeContinue(token, "/")
		switch {
		case err == nil && theirs == nil: // "/" is everything
		case err == nil || theirs == nil || err.Error() != "invalid continue token: "+strings.ReplaceAll(theirs.Error(), "storage.", "apiserver."):
			t.Errorf("%s: %v, upstream: %v", token, err, theirs)
		}
	}
}
