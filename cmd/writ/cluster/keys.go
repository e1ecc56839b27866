package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/durable"
)

// ownKeys is this server as one that has the key of the cluster. Its configuration
// is the file that it was started with, which is read again at once.
type ownKeys struct {
	p  *ControlPlane
	mu sync.Mutex
}

var _ member.KeyHolder = (*ownKeys)(nil)

// Keys implements member.KeyHolder.
func (o *ownKeys) Keys(context.Context) (member.Keys, error) {
	file := o.p.cfg.API.EncryptionFile
	if o.p.encryption == nil || file != o.p.cfg.file(ownKey) && file != o.p.cfg.file(sharedEncryption) {
		return member.Keys{Foreign: "its --encryption-provider-config says how it stores: give all servers the same file, as docs/api.md says"}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return member.Keys{}, fmt.Errorf("read the key of what is stored: %w", err)
	}
	return keysIn(text)
}

// SetKeys implements member.KeyHolder.
func (o *ownKeys) SetKeys(ctx context.Context, k member.Keys) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if raw, err := base64.StdEncoding.DecodeString(k.Key); err != nil || len(raw) != 32 {
		return errors.New("a key has 32 bytes, in base64")
	}
	have, err := o.Keys(ctx)
	switch {
	case err != nil:
		return err
	case have.Foreign != "":
		return errors.New(have.Foreign)
	case have.Writes && have.Key != k.Key:
		return errors.New("values are stored by another key already")
	case have == k || have.Writes:
		return nil
	case k.Writes && have.Key != k.Key:
		return errors.New("values are stored by a key that all servers have: it was not told before")
	}
	file := o.p.cfg.API.EncryptionFile
	if err := durable.WriteFile(file, encryptionText(k.Key, !k.Writes), 0o600); err != nil {
		return fmt.Errorf("write the key of what is stored: %w", err)
	}
	if err := o.p.encryption.Reload(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	o.p.log("encryption").Info("this server has the key of what is stored", "key", file, "writes", k.Writes)
	return nil
}

// keysIn reads a configuration. One that is not of encryptionText is foreign.
func keysIn(text []byte) (k member.Keys, err error) {
	var c apiserverv1.EncryptionConfiguration
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return k, fmt.Errorf("decode: %w", err)
	}
	foreign := member.Keys{Foreign: "its keys are of an operator's making: change the same file on all servers, as docs/api.md says"}
	if len(c.Resources) != 1 || !slices.Equal(c.Resources[0].Resources, []string{"secrets"}) {
		return foreign, nil
	}
	for i, p := range c.Resources[0].Providers {
		switch {
		case p.Secretbox != nil && len(p.Secretbox.Keys) == 1 && p.Secretbox.Keys[0].Name == "own" && k.Key == "":
			k = member.Keys{Key: p.Secretbox.Keys[0].Secret, Writes: i == 0}
		case p.Identity != nil:
		default:
			return foreign, nil
		}
	}
	return k, nil
}

// encryptServers gives all servers one key.
func (p *ControlPlane) encryptServers(ctx context.Context) (member.Encrypted, error) {
	if p.member == nil {
		return member.Encrypted{}, errors.New("this server is alone, and has a key of its own by itself: " + p.cfg.file(ownKey))
	}
	return member.Encrypt(ctx, p.keyHolders, newKey)
}

// keyHolders are all servers of the cluster, of which each answers.
func (p *ControlPlane) keyHolders(ctx context.Context) (map[string]member.KeyHolder, error) {
	all, err := p.store.Members(ctx)
	if err != nil {
		return nil, err
	}
	there := p.roll.Presences()
	out := map[string]member.KeyHolder{}
	for _, m := range all {
		at, ok := there[m.Name]
		switch {
		case m.Self:
			out[m.Name] = p.keys
		case m.Name == "" || m.Learner:
			return nil, errors.New("a server is joining: wait until 'writ member list' says that it is ready")
		case !ok || !at.Live:
			return nil, fmt.Errorf("%s does not answer, and every server must have the key before one stores by it: start it, or 'writ member remove %[1]s'", m.Name)
		default:
			out[m.Name] = member.Client{HTTP: &http.Client{Transport: p.asServer, Timeout: 10 * time.Second}, Server: "https://" + at.Address.String()}
		}
	}
	return out, nil
}

func newKey() (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(key), nil
}
