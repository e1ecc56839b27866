package member

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	keysPath    = Path + "/keys"
	encryptPath = Path + "/encrypt"
)

// Keys is what a server knows of the key by which the cluster encrypts what it
// stores. It is secret.
type Keys struct {
	// Key in base64; "" it has none.
	Key string `json:"key,omitempty"`
	// Writes says that it stores by the key; else it only reads what is.
	Writes bool `json:"writes,omitempty"`
	// Foreign says why it is not for us to give it one.
	Foreign string `json:"foreign,omitempty"`
}

// KeyHolder is a server that is asked for its key, and told one. It refuses to
// store by a key that it was not told before, and another one than it stores by.
type KeyHolder interface {
	Keys(ctx context.Context) (Keys, error)
	SetKeys(ctx context.Context, k Keys) error
}

// Encrypted says what Encrypt has done.
type Encrypted struct {
	Servers []string `json:"servers"`           // that store by the key
	Already bool     `json:"already,omitempty"` // all of them did
}

// Encrypt gives all servers of a cluster one key. None stores by it before all
// have it: what one wrote another could not read. Where it breaks off everything
// can be read everywhere, and the next Encrypt, on any server, goes on with the key
// that is there. servers returns all that there are, or why one does not answer.
func Encrypt(ctx context.Context, servers func(context.Context) (map[string]KeyHolder, error), newKey func() (string, error)) (e Encrypted, err error) {
	var key string
	for known := []string(nil); ; { // again, when one has joined meanwhile
		all, err := servers(ctx)
		if err != nil {
			return e, fmt.Errorf("encrypt: %w", err)
		}
		have := map[string]Keys{}
		for name, s := range all {
			if have[name], err = s.Keys(ctx); err != nil {
				return e, fmt.Errorf("encrypt: ask %s for its key: %w: nothing has changed", name, err)
			}
		}
		e.Servers = slices.Sorted(maps.Keys(all))
		agreed, writing, err := agree(have)
		if err != nil {
			return e, fmt.Errorf("encrypt: %w", err)
		}
		if writing == len(all) {
			e.Already = known == nil
			return e, nil
		}
		if key == "" {
			if key = agreed; key == "" {
				if key, err = newKey(); err != nil {
					return e, fmt.Errorf("encrypt: make a key: %w", err)
				}
			}
		}
		for name, s := range all {
			if have[name].Key == key {
				continue
			}
			if err := s.SetKeys(ctx, Keys{Key: key}); err != nil {
				return e, fmt.Errorf("encrypt: give %s the key: %w: all is stored in plain as before", name, err)
			}
		}
		if !slices.Equal(known, e.Servers) {
			known = e.Servers
			continue
		}
		for _, name := range e.Servers {
			if err := all[name].SetKeys(ctx, Keys{Key: key, Writes: true}); err != nil {
				return e, fmt.Errorf("encrypt: have %s store by the key: %w: all servers can read what is stored; do it again", name, err)
			}
		}
		return e, nil
	}
}

// agree is the key that the servers go on with, "" when there is none, and how
// many store by it.
func agree(have map[string]Keys) (key string, writing int, err error) {
	writer := ""
	for _, name := range slices.Sorted(maps.Keys(have)) {
		switch k := have[name]; {
		case k.Foreign != "":
			return "", 0, fmt.Errorf("%s: %s", name, k.Foreign)
		case k.Writes && writer != "" && k.Key != key:
			return "", 0, fmt.Errorf("%s and %s store by different keys: neither can read all; restore a backup, or give both the keys of both by --encryption-provider-config", writer, name)
		case k.Writes:
			writer, key = name, k.Key
			writing++
		case k.Key != "" && key == "":
			key = k.Key
		}
	}
	return key, writing, nil
}

// keys answers for this server. The authorizer lets servers and administrators.
func (h *Host) keys(w http.ResponseWriter, r *http.Request, user string) {
	if r.Method == http.MethodGet {
		k, err := h.Keys.Keys(r.Context())
		h.Log.Info("the key of what is stored was asked for", "user", user, "remote", r.RemoteAddr, "given", k.Key != "")
		answer(w, k, err)
		return
	}
	var k Keys
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &k)
	}
	if err != nil || k.Key == "" || k.Foreign != "" {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "a key is set by its text in base64, and whether values are stored by it")
		return
	}
	err = h.Keys.SetKeys(r.Context(), k)
	h.Log.Info("the key of what is stored was told", "user", user, "remote", r.RemoteAddr, "writes", k.Writes, "err", err)
	answer(w, struct{}{}, err)
}

// Keys implements KeyHolder: of the server that is asked.
func (c Client) Keys(ctx context.Context) (k Keys, err error) {
	return k, c.do(ctx, http.MethodGet, keysPath, &k)
}

// SetKeys implements KeyHolder.
func (c Client) SetKeys(ctx context.Context, k Keys) error {
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	resp, err := c.send(ctx, http.MethodPut, keysPath, bytes.NewReader(text))
	if err != nil {
		return err
	}
	return errors.Join(resp.Body.Close())
}

// Encrypt has the servers encrypt what they store.
func (c Client) Encrypt(ctx context.Context) (e Encrypted, err error) {
	return e, c.do(ctx, http.MethodPost, encryptPath, &e)
}

var _ KeyHolder = Client{}
