package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshDialer runs git-upload-pack on an SSH host. It follows neither the
// user's SSH configuration nor a host that it does not know.
type sshDialer struct {
	loc    location
	user   string
	signer ssh.Signer // nil: the agent of the environment
	pass   string
	hosts  ssh.HostKeyCallback
}

func newSSH(loc location, auth Auth) (*sshDialer, error) {
	d := &sshDialer{loc: loc, user: cmp.Or(loc.user, auth.Username, "git"), pass: auth.Password}
	var err error
	if d.hosts, err = readHosts(auth.KnownHosts); err != nil {
		return nil, err
	}
	if len(auth.SSHKey) == 0 {
		return d, nil
	}
	d.signer, err = ssh.ParsePrivateKey(auth.SSHKey)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && auth.Password != "" {
		d.signer, err = ssh.ParsePrivateKeyWithPassphrase(auth.SSHKey, []byte(auth.Password))
	}
	switch {
	case errors.As(err, &locked):
		return nil, problem(ErrConfig, "the SSH key for the repository needs a passphrase: give it as the password, or a key without one")
	case err != nil:
		return nil, problem(ErrConfig, "the SSH key for the repository cannot be read: give a private key as PEM, and the passphrase as password if it has one")
	}
	return d, nil
}

// readHosts reads the keys of known hosts; without any, those of the user who
// runs the process.
func readHosts(known []byte) (ssh.HostKeyCallback, error) {
	files := []string{}
	if len(known) > 0 {
		f, err := os.CreateTemp("", "known-hosts-")
		if err != nil {
			return nil, fmt.Errorf("keep known hosts: %w", err)
		}
		defer os.Remove(f.Name())
		_, err = f.Write(known)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("keep known hosts: %w", err)
		}
		files = append(files, f.Name())
	} else {
		home, _ := os.UserHomeDir()
		for _, name := range []string{filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts"} {
			if _, err := os.Stat(name); err == nil {
				files = append(files, name)
			}
		}
	}
	if len(files) == 0 {
		return nil, problem(ErrHostKey, "no key of the repository's host is known: give its known_hosts (ssh-keyscan HOST prints one; compare it with what the host's owner publishes)")
	}
	hosts, err := knownhosts.New(files...)
	if err != nil {
		return nil, problem(ErrConfig, "the known hosts cannot be read: give them as known_hosts lines")
	}
	return hosts, nil
}

// dial connects and starts a program of git. When ctx ends the connection is
// cut, whatever it is doing.
func (d *sshDialer) dial(ctx context.Context, program string) (*sshSession, error) {
	conf, done, err := d.config()
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", d.loc.host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, d.loc.host, conf)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, d.explain(err)
	}
	s := &sshSession{pushes: program == "git-receive-pack", client: ssh.NewClient(c, chans, reqs), stop: stop}
	if err := s.start(program + " " + quote(d.loc.repo)); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// config says who we are, and which host keys are right.
func (d *sshDialer) config() (conf *ssh.ClientConfig, done func(), err error) {
	conf = &ssh.ClientConfig{User: d.user, HostKeyCallback: d.hosts, HostKeyAlgorithms: d.algorithms(), Timeout: dialTimeout}
	done = func() {}
	switch socket := os.Getenv("SSH_AUTH_SOCK"); {
	case d.signer != nil:
		conf.Auth = append(conf.Auth, ssh.PublicKeys(d.signer))
	case d.pass != "":
		conf.Auth = append(conf.Auth, ssh.Password(d.pass))
	case socket == "":
		return nil, nil, problem(ErrCredentials, "there is no SSH key for %s: give one", d.loc.name)
	default:
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return nil, nil, problem(ErrCredentials, "the SSH agent does not answer: start it, or give an SSH key")
		}
		done = func() { _ = conn.Close() }
		conf.Auth = append(conf.Auth, ssh.PublicKeysCallback(agent.NewClient(conn).Signers))
	}
	return conf, done, nil
}

// algorithms are those of the keys known of the host. A host has several keys,
// and offers one that is not known when it is not told which are.
func (d *sshDialer) algorithms() []string {
	var unknown *knownhosts.KeyError
	if err := d.hosts(d.loc.host, &net.TCPAddr{IP: net.IPv4zero}, noKey{}); !errors.As(err, &unknown) {
		return nil
	}
	var out []string
	for _, k := range unknown.Want {
		if t := k.Key.Type(); t == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			out = append(out, t)
		}
	}
	return out
}

// noKey is a key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

func (d *sshDialer) explain(err error) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) > 0:
		return problem(ErrHostKey, "%s shows another host key than the known one: somebody may be in between; if the key was really changed, give the new known_hosts", d.loc.name)
	case errors.As(err, &key):
		return problem(ErrHostKey, "the host key of %s is not known: add it to the known_hosts", d.loc.name)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return problem(ErrCredentials, "%s does not accept the SSH key: allow its public half to read the repository, or give another key", d.loc.name)
	}
	return err
}

// quote makes one word of a path for the shell of the host.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
