// Package token makes, lists and ends the bootstrap tokens by which machines
// join a cluster.
//
// It watches nothing. It owns the Secrets kube-system/bootstrap-token-<id> that
// it has made, in the form that Kubernetes gives them (KEP-130): others may make
// and end them too. It promises that the secret half of a token is shown once,
// when it is made.
package token

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	tokenutil "k8s.io/cluster-bootstrap/token/util"

	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/join"
	"github.com/writ-os/writ/schema"
)

// Token is one that exists.
type Token struct {
	ID          string    `json:"id"`
	Description string    `json:"description,omitempty"`
	Expires     time.Time `json:"expires,omitzero"` // zero: never
	Joins       bool      `json:"joins"`            // machines may join by it
	Role        Role      `json:"role,omitempty"`   // which they become
}

// Made is a token that has just been made, with what a machine needs to join.
type Made struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires,omitzero"`
	Server  string    `json:"server"`
	CAHash  string    `json:"caHash"`
	// Role is what a machine becomes by it.
	Role Role `json:"role"`
}

// Role is what a machine becomes that joins.
type Role string

// The roles. Whoever has the token of a server is given the keys of the cluster.
const (
	Agent  Role = "agent"
	Server Role = "server"
)

func (r Role) group() string {
	if r == Server {
		return identity.ServersGroup
	}
	return identity.JoinersGroup
}

// Command is what to run on the machine that joins.
func (m *Made) Command() string {
	return fmt.Sprintf("writ %s --server %s --token %s --ca-hash %s", m.Role, m.Server, m.Token, m.CAHash)
}

// Create makes a token. With ttl 0 it does not expire.
func Create(ctx context.Context, c client.Interface, role Role, description string, ttl time.Duration, now time.Time) (*Made, error) {
	server, hash, err := place(ctx, c)
	if err != nil {
		return nil, err
	}
	text, err := tokenutil.GenerateBootstrapToken()
	if err != nil {
		return nil, fmt.Errorf("make token: %w", err)
	}
	made := &Made{Token: text, Server: server, CAHash: hash, Role: role}
	if ttl > 0 {
		made.Expires = now.Add(ttl).UTC().Truncate(time.Second)
	}
	s := bootstrap.NewSecret(text, role.group(), description, made.Expires)
	if _, err := client.Create(ctx, c, s, client.WriteOptions{}); err != nil {
		return nil, fmt.Errorf("make token: %w", err)
	}
	return made, nil
}

// Await waits until the cluster has signed cluster-info with a token: a machine
// that joined before would believe nothing.
func Await(ctx context.Context, c client.Reader, token string) error {
	ctx, cancel := context.WithTimeout(ctx, signedWithin)
	defer cancel()
	for {
		info, err := client.Get[*corev1.ConfigMap](ctx, c, clusterInfo)
		if err == nil {
			_, err = bootstrap.Verify(info, token)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cluster to sign with the token: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// signedWithin is how long the controller may take that signs; it takes
// milliseconds.
const signedWithin = 10 * time.Second

var clusterInfo = schema.Key{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}

// place is where others reach the cluster, and the hash of its authority, as
// the cluster tells everybody.
func place(ctx context.Context, c client.Interface) (server, hash string, err error) {
	info, err := client.Get[*corev1.ConfigMap](ctx, c, clusterInfo)
	if err != nil {
		return "", "", fmt.Errorf("read cluster-info: %w", err)
	}
	cfg, err := clientcmd.Load([]byte(info.Data[bootstrapapi.KubeConfigKey]))
	if err != nil {
		return "", "", fmt.Errorf("read cluster-info: %w", err)
	}
	for _, cluster := range cfg.Clusters {
		block, _ := pem.Decode(cluster.CertificateAuthorityData)
		if block == nil {
			continue
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", "", fmt.Errorf("read authority of cluster-info: %w", err)
		}
		return cluster.Server, join.Hash(ca), nil
	}
	return "", "", errors.New("read cluster-info: it names no authority")
}

// List returns the tokens, those that expire soonest first.
func List(ctx context.Context, c client.Interface) ([]Token, error) {
	all, err := client.ListAll[*corev1.Secret](ctx, c, client.ListOptions{Namespace: metav1.NamespaceSystem,
		Fields: fields.OneTermEqualSelector("type", string(bootstrapapi.SecretTypeBootstrapToken))})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	out := make([]Token, 0, len(all))
	for _, s := range all {
		t := Token{ID: string(s.Data[bootstrapapi.BootstrapTokenIDKey]), Description: string(s.Data[bootstrapapi.BootstrapTokenDescriptionKey])}
		groups := strings.Split(string(s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]), ",")
		for _, r := range []Role{Agent, Server} {
			if slices.Contains(groups, r.group()) {
				t.Joins, t.Role = true, r
			}
		}
		t.Expires, _ = time.Parse(time.RFC3339, string(s.Data[bootstrapapi.BootstrapTokenExpirationKey])) // without one it does not
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Token) int {
		if a.Expires.IsZero() != b.Expires.IsZero() {
			if a.Expires.IsZero() {
				return 1
			}
			return -1
		}
		if n := a.Expires.Compare(b.Expires); n != 0 {
			return n
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// Delete ends a token: abcdef, or the whole of it.
func Delete(ctx context.Context, c client.Interface, token string) error {
	id, _, _ := strings.Cut(token, ".")
	if !tokenutil.IsValidBootstrapTokenID(id) {
		return fmt.Errorf("delete token: %q is not the id of a token: six letters and digits", id)
	}
	if err := client.Delete[*corev1.Secret](ctx, c, schema.Key{Namespace: metav1.NamespaceSystem, Name: tokenutil.BootstrapTokenSecretName(id)}, client.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete token: %w", err)
	}
	return nil
}
