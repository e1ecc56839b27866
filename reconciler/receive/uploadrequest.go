package receive

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// uploadRequest is one round of a clone or fetch: each request repeats
// everything that was said before.
type uploadRequest struct {
	demand
	caps   capabilities
	depth  int               // 0 for no bound
	rounds [][]plumbing.Hash // what the client has, as it said it: up to a flush each
	done   bool              // the client awaits the pack
}

// maxHaves bounds what one request may list. git sends a few hundred.
const maxHaves = 1 << 16

// parseUpload reads a request of git-upload-pack.
func parseUpload(p *packetReader) (*uploadRequest, error) {
	u := &uploadRequest{demand: demand{shallow: make(map[plumbing.Hash]bool)}}
	for {
		line, flush, err := p.text()
		if errors.Is(err, io.EOF) && len(u.wants) == 0 {
			return u, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read wants: %w", err)
		}
		if flush && len(u.wants) == 0 {
			return u, nil
		}
		if flush {
			break
		}
		if err := u.want(line); err != nil {
			return nil, err
		}
	}
	return u, u.readHaves(p)
}

// want takes in one line of the first part of a request.
func (u *uploadRequest) want(line string) error {
	verb, arg, _ := strings.Cut(line, " ")
	switch verb {
	case "want":
		sha, caps, _ := strings.Cut(arg, " ")
		if !validSHA.MatchString(sha) || len(u.wants) == maxHaves {
			return fmt.Errorf("read wants: %q", line)
		}
		if u.caps == nil {
			u.caps = parseCapabilities(caps)
		}
		u.wants = append(u.wants, plumbing.NewHash(sha))
	case "shallow":
		if !validSHA.MatchString(arg) || len(u.shallow) == maxHaves {
			return fmt.Errorf("read wants: %q", line)
		}
		u.shallow[plumbing.NewHash(arg)] = true
	case "deepen":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 {
			return fmt.Errorf("read wants: %q", line)
		}
		u.depth = n
	default:
		return fmt.Errorf("read wants: %q is not supported", line)
	}
	return nil
}

func (u *uploadRequest) readHaves(p *packetReader) error {
	var round []plumbing.Hash
	for total := 0; ; {
		line, flush, err := p.text()
		sha, have := strings.CutPrefix(line, "have ")
		switch {
		case errors.Is(err, io.EOF):
			if len(round) > 0 {
				return fmt.Errorf("read haves: %w", io.ErrUnexpectedEOF)
			}
			return nil
		case err != nil:
			return fmt.Errorf("read haves: %w", err)
		case flush:
			u.rounds, round = append(u.rounds, round), nil
		case line == "done":
			u.rounds, u.done = append(u.rounds, round), true
			return nil
		case have && validSHA.MatchString(sha) && total < maxHaves:
			round = append(round, plumbing.NewHash(sha))
			total++
		default:
			return fmt.Errorf("read haves: %q", line)
		}
		if len(u.rounds) > maxHaves {
			return fmt.Errorf("read haves: too many rounds")
		}
	}
}
