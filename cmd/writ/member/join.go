package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/durable"
)

// Join is everything a machine needs to become one of several servers.
type Join struct {
	DataDir string
	// Server is the URL of one that is there, Token one of a server.
	Server, Token string
	// Discover returns the authority of the cluster, which the hashes that the
	// operator gave have vouched for.
	Discover func(ctx context.Context) ([]byte, error)
	Request  Request
	// Files are the paths that may be written, besides those of pki.Shared.
	Files []string
	Log   *slog.Logger
}

const (
	maxAnswer = 16 << 20
	within    = 45 * time.Second // adding a member takes up to 30
	retry     = time.Second
)

// Run joins, unless the machine has done so. It may be ended at any moment and
// begun again: what makes the machine a member is written last. Once that is
// written the token is needed no more: the store asks the servers, by a
// certificate of their authority, whether this one was added. One that was
// removed since is told to be added again.
func (j *Join) Run(ctx context.Context) error {
	begun, err := HasData(j.DataDir)
	if err != nil {
		return err
	}
	state, err := ReadState(j.DataDir)
	switch {
	case err != nil:
		return err
	case begun && state == nil:
		return fmt.Errorf("join as a server: %s holds the data of a cluster of its own: choose another --data-dir, or remove it", j.DataDir)
	case begun:
		return nil
	case state.added():
		return j.resume(ctx)
	case j.Token == "":
		return errors.New("join as a server: this machine is no server of a cluster yet: it needs --token, of 'writ token create --role server'")
	}
	ca, err := j.discover(ctx)
	if err != nil {
		return fmt.Errorf("join as a server: %w", err)
	}
	if err := j.sameCluster(ca); err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return errors.New("join as a server: the authority of the cluster is no certificate")
	}
	a, err := j.ask(ctx, client(ca))
	if err != nil {
		return fmt.Errorf("join as a server: %w", err)
	}
	return j.keep(a)
}

// resume goes on with what an earlier life was given. With a token it asks once
// more to be added, in case it was removed since; where that fails what is here
// may do all the same.
func (j *Join) resume(ctx context.Context) error {
	if j.Token == "" {
		return nil
	}
	once, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ca, err := j.Discover(once)
	if err == nil {
		if err := j.sameCluster(ca); err != nil {
			return err
		}
		var a *Answer
		if a, _, err = j.once(once, client(ca)); err == nil {
			return j.keep(a)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.Log.Info("not added to the servers once more: this machine goes on with what it was given", "server", j.Server, "err", err)
	return nil
}

// keep makes the machine a member, by the file that is written last.
func (j *Join) keep(a *Answer) error {
	if err := j.write(a); err != nil {
		return fmt.Errorf("join as a server: %w", err)
	}
	j.Log.Info("joined as a server", "server", j.Server, "name", j.Request.Name, "url", j.Request.URL)
	return (&State{Name: j.Request.Name, Peers: a.Peers, Settings: a.Settings}).Write(j.DataDir)
}

// client trusts the authority of the cluster alone.
func client(ca []byte) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca) // nobody is trusted where there is none
	return &http.Client{Timeout: within, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

// discover tries until the cluster answers.
func (j *Join) discover(ctx context.Context) ([]byte, error) {
	for said := ""; ; {
		ca, err := j.Discover(ctx)
		var final interface{ Final() bool }
		if err == nil || ctx.Err() != nil || errors.As(err, &final) {
			return ca, err
		}
		if err.Error() != said {
			said = err.Error()
			j.Log.Warn("cluster not found yet", "server", j.Server, "err", err)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// sameCluster refuses to write over the authority of another cluster.
func (j *Join) sameCluster(ca []byte) error {
	have, err := os.ReadFile(j.path("pki/" + pki.Shared()[0]))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	if !bytes.Equal(bytes.TrimSpace(have), bytes.TrimSpace(ca)) {
		return fmt.Errorf("join as a server: %s holds the keys of another cluster: choose another --data-dir, or remove it", j.DataDir)
	}
	return nil
}

// ask asks to be added, until the cluster has said yes or no.
func (j *Join) ask(ctx context.Context, c *http.Client) (*Answer, error) {
	for said := ""; ; {
		a, passes, err := j.once(ctx, c)
		if err == nil || !passes || ctx.Err() != nil {
			return a, err
		}
		if err.Error() != said {
			said = err.Error()
			j.Log.Info("not added to the servers yet", "server", j.Server, "err", err)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

func (j *Join) once(ctx context.Context, c *http.Client) (a *Answer, passes bool, err error) {
	body, err := json.Marshal(j.Request)
	if err != nil {
		return nil, false, fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(j.Server, "/")+joinPath, bytes.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("--server: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+j.Token)
	resp, err := c.Do(req)
	if err != nil {
		return nil, true, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, true, fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		later := resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests
		return nil, later, said(resp, text)
	}
	a = &Answer{}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, false, errors.New("the answer is not that of a server of this kind")
	}
	return a, false, nil
}

// write keeps what the cluster has given, each file in one step.
func (j *Join) write(a *Answer) error {
	may := slices.Clone(j.Files)
	for _, f := range pki.Shared() {
		if a.Files["pki/"+f] == nil {
			return fmt.Errorf("the answer lacks pki/%s", f)
		}
		may = append(may, "pki/"+f)
	}
	for name := range a.Files {
		if !slices.Contains(may, name) {
			return fmt.Errorf("the answer has a file that no server shares: %q", name)
		}
	}
	for _, name := range may {
		data, ok := a.Files[name]
		if !ok {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(j.path(name)), 0o700); err != nil {
			return fmt.Errorf("make folder of keys: %w", err)
		}
		if err := durable.WriteFile(j.path(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (j *Join) path(name string) string { return filepath.Join(j.DataDir, filepath.FromSlash(name)) }

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(retry):
		return nil
	}
}
