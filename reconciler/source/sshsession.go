package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
)

// sshSession speaks upload-pack or receive-pack over one SSH channel.
type sshSession struct {
	pushes bool
	client *ssh.Client
	stop   func() bool
	ch     *ssh.Session
	in     io.WriteCloser
	out    io.Reader
	said   complaint
}

func (s *sshSession) start(command string) (err error) {
	if s.ch, err = s.client.NewSession(); err != nil {
		return err
	}
	s.ch.Stderr = &s.said
	if s.in, err = s.ch.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = s.ch.StdoutPipe(); err != nil {
		return err
	}
	return s.ch.Start(command)
}

// refused says why the host ended the conversation before it began: it tells
// on its standard error.
func (s *sshSession) refused() error {
	exit := s.ch.Wait()
	text := strings.TrimSpace(string(s.said))
	low := strings.ToLower(text)
	for _, no := range []string{"not found", "does not appear to be a git repository", "does not exist", "no such", "could not be found", "access denied"} {
		if strings.Contains(low, no) {
			return transport.ErrRepositoryNotFound
		}
	}
	if text == "" && exit != nil {
		return exit
	}
	return fmt.Errorf("the host says %q", text)
}

// complaint keeps the beginning of what is written to it.
type complaint []byte

func (c *complaint) Write(p []byte) (int, error) {
	*c = append(*c, p[:min(len(p), 500-min(len(*c), 500))]...)
	return len(p), nil
}

// AdvertisedReferencesContext implements session; the context of dial governs.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(s.out)
	switch {
	case !s.pushes && (errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && refs.IsEmpty()):
		return nil, transport.ErrEmptyRemoteRepository
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, s.refused()
	case err != nil:
		return nil, err
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// UploadPack implements session.
func (s *sshSession) UploadPack(_ context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if req.IsEmpty() {
		return nil, transport.ErrEmptyUploadPackRequest
	}
	err := req.UploadRequest.Encode(s.in)
	if err == nil {
		err = req.UploadHaves.Encode(s.in, true)
	}
	if err == nil {
		err = pktline.NewEncoder(s.in).EncodeString("done\n")
	}
	if err != nil {
		return nil, err
	}
	resp := packp.NewUploadPackResponse(req)
	return resp, resp.Decode(io.NopCloser(s.out))
}

// ReceivePack implements pushSession.
func (s *sshSession) ReceivePack(_ context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if err := req.Encode(s.in); err != nil {
		return nil, err
	}
	out := s.out
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		out = sideband.NewDemuxer(sideband.Sideband64k, s.out)
	case req.Capabilities.Supports(capability.Sideband):
		out = sideband.NewDemuxer(sideband.Sideband, s.out)
	}
	report := packp.NewReportStatus()
	return report, report.Decode(out)
}

// Close implements session.
func (s *sshSession) Close() error {
	s.stop()
	return s.client.Close()
}
