package receive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxPacket is the longest packet of the protocol with its length in front.
const maxPacket = 65520

var errPacket = errors.New("malformed packet")

// packetReader takes a stream of packets apart: four hexadecimal digits that
// count themselves, then the payload.
type packetReader struct {
	r   *bufio.Reader
	buf []byte
}

func newPacketReader(r io.Reader) *packetReader {
	return &packetReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the payload of the next packet, which is valid until the next
// call; nil is a flush packet. At the end of the stream the error is io.EOF.
func (p *packetReader) next() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return nil, err
	}
	size := 0
	for _, c := range head {
		switch {
		case '0' <= c && c <= '9':
			size = size<<4 | int(c-'0')
		case 'a' <= c && c <= 'f':
			size = size<<4 | int(c-'a'+10)
		case 'A' <= c && c <= 'F':
			size = size<<4 | int(c-'A'+10)
		default:
			return nil, fmt.Errorf("%w: length %q", errPacket, head)
		}
	}
	switch {
	case size == 0:
		return nil, nil
	case size < 4 || size > maxPacket: // 1 to 3 are marks of protocol version 2
		return nil, fmt.Errorf("%w: length %q", errPacket, head)
	}
	if cap(p.buf) < size {
		p.buf = make([]byte, maxPacket)
	}
	line := p.buf[:size-4]
	if _, err := io.ReadFull(p.r, line); err != nil {
		return nil, fmt.Errorf("%w: cut short", errPacket)
	}
	return line, nil
}

// text is next for lines: without the newline that ends most of them, and
// with flush told apart from an empty line.
func (p *packetReader) text() (line string, flush bool, err error) {
	b, err := p.next()
	if err != nil || b == nil {
		return "", b == nil, err
	}
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	return string(b), false, nil
}

// writePacket writes one packet.
func writePacket(w io.Writer, format string, a ...any) error {
	payload := fmt.Sprintf(format, a...)
	if len(payload) > maxPacket-4 {
		return fmt.Errorf("%w: %d bytes", errPacket, len(payload))
	}
	_, err := fmt.Fprintf(w, "%04x%s", len(payload)+4, payload)
	return err
}

// writeFlush writes a flush packet.
func writeFlush(w io.Writer) error {
	_, err := io.WriteString(w, "0000")
	return err
}

// Bands of a multiplexed reply.
const (
	bandData     = 1
	bandProgress = 2
	bandError    = 3
)

// band is one band of a multiplexed reply. A size of 0 means that the client
// asked for no multiplexing: data goes out bare, everything else is dropped.
type band struct {
	w    io.Writer
	id   byte
	size int
}

// Write implements io.Writer.
func (b band) Write(p []byte) (int, error) {
	if b.size == 0 {
		if b.id == bandData {
			return b.w.Write(p)
		}
		return len(p), nil
	}
	done := 0
	for done < len(p) {
		n := min(len(p)-done, b.size-5)
		if _, err := fmt.Fprintf(b.w, "%04x%c", n+5, b.id); err != nil {
			return done, err
		}
		if _, err := b.w.Write(p[done : done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// bandSize is the packet size of a client's capabilities.
func bandSize(caps capabilities) int {
	switch {
	case caps["side-band-64k"]:
		return maxPacket
	case caps["side-band"]:
		return 1000
	default:
		return 0
	}
}
