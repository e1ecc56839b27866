package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	tokenutil "k8s.io/cluster-bootstrap/token/util"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/durable"
)

// CheckBeginning refuses what a cluster cannot begin with, without saying the
// token.
func (c Config) CheckBeginning() error {
	switch {
	case c.FirstToken != "" && !tokenutil.IsValidBootstrapToken(c.FirstToken):
		return errors.New("$WRIT_AGENT_TOKEN is no token: six and sixteen small letters and digits, such as abcdef.0123456789abcdef")
	case c.Join.Server == "":
		return nil
	case c.FirstToken != "":
		return errors.New("$WRIT_AGENT_TOKEN is for the first server of a cluster, and --server joins one")
	case c.Authority != "":
		return errors.New("--authority is for the first server of a cluster; with --server it is handed over")
	}
	return nil
}

// adopt takes over the authority that the flags give.
func (p *ControlPlane) adopt() error {
	dir := p.cfg.Authority
	if dir == "" {
		return nil
	}
	cert, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return fmt.Errorf("read --authority: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		return fmt.Errorf("read --authority: %w", err)
	}
	err = pki.Adopt(pki.Config{Dir: p.cfg.file("pki")}, cert, key)
	if errors.Is(err, pki.ErrAnother) {
		return fmt.Errorf("--authority %s: %w: start without it, or with an empty --data-dir", dir, err)
	}
	if err != nil {
		return fmt.Errorf("--authority %s: %w", dir, err)
	}
	return nil
}

// beginsFile says that the cluster of a data directory begins: its first token
// is not in the store yet. It is made before the store and removed for good
// after the token is written, so that a server that is killed between comes
// through, and a token that has expired or was deleted never comes back.
const beginsFile = "begins"

// noteBeginning is called before there is a store.
func (p *ControlPlane) noteBeginning() error {
	if p.cfg.FirstToken == "" || p.member != nil {
		return nil
	}
	begun, err := member.HasData(p.cfg.DataDir)
	if err != nil || begun {
		return err
	}
	return durable.WriteFile(p.cfg.file(beginsFile), nil, 0o600)
}

// seedToken writes the first token of a cluster that begins.
func (p *ControlPlane) seedToken(ctx context.Context) error {
	file := p.cfg.file(beginsFile)
	switch _, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look whether the cluster begins: %w", err)
	}
	if token := p.cfg.FirstToken; token != "" {
		expires := time.Now().Add(bootstrap.TTL)
		s := bootstrap.NewSecret(token, identity.JoinersGroup, "nodes of a cluster that begins", expires)
		if _, err := client.Create(ctx, p.as(identity.APIServer), s, client.WriteOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("write the first token: %w", err)
		}
		id, _, _ := strings.Cut(token, ".")
		p.log("auth").Info("nodes join by the token that this server was given", "id", id, "until", expires.UTC().Format(time.RFC3339))
	}
	if err := durable.Remove(file); err != nil {
		return fmt.Errorf("note that the cluster has begun: %w", err)
	}
	return nil
}
