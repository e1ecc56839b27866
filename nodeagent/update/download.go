package update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// download makes the .part file whole, and says whether it began in the middle.
func (f fetcher) download(ctx context.Context, i Image, progress func(done, total int64)) (resumed bool, err error) {
	out, err := os.OpenFile(f.path(i, partSuffix), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	at := have
	if i.Size > 0 && at > i.Size {
		at = 0
	}
	if i.Size > 0 && at == i.Size {
		return true, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(stall, func() { cancel(fmt.Errorf("it sent nothing for %s", stall)) })
	defer idle.Stop()
	res, err := f.request(ctx, i, at)
	if err != nil {
		return false, because(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusPartialContent {
		at = 0
	}
	resumed = at > 0
	if at != have {
		if err := out.Truncate(at); err != nil {
			return false, err
		}
	}
	if _, err := out.Seek(at, io.SeekStart); err != nil {
		return false, err
	}
	total := at + res.ContentLength
	if res.ContentLength < 0 {
		total = i.Size
	}
	limit := i.Size
	if limit == 0 {
		limit = maxBundle
	}
	body := &body{r: io.LimitReader(res.Body, limit-at+1), done: at, total: total, progress: progress, idle: idle}
	n, err := io.Copy(out, body)
	switch {
	case err != nil:
		return resumed, because(ctx, err)
	case at+n > limit:
		return resumed, errors.Join(out.Truncate(0), &distrustError{fmt.Sprintf("%s is longer than the %d bytes that are declared", i.Version, limit)})
	case i.Size > 0 && at+n < i.Size:
		return resumed, fmt.Errorf("it ended after %d of %d bytes", at+n, i.Size)
	}
	return resumed, nil
}

// request asks for the bundle, from an offset on where the source can do that.
func (f fetcher) request(ctx context.Context, i Image, at int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL, nil)
	if err != nil {
		return nil, err
	}
	// What is stored and hashed is the file, and no other form of it.
	req.Header.Set("Accept-Encoding", "identity")
	if at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	res, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusOK:
		return res, nil
	case http.StatusPartialContent:
		if at > 0 && strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", at)) {
			return res, nil
		}
		err = fmt.Errorf("it sent the part %.80q, when asked for the one from %d on", res.Header.Get("Content-Range"), at)
		return nil, errors.Join(err, res.Body.Close())
	case http.StatusRequestedRangeNotSatisfiable:
		// There is more here than the source has.
		if at > 0 {
			if err := res.Body.Close(); err != nil {
				return nil, err
			}
			return f.request(ctx, i, 0)
		}
	}
	return nil, errors.Join(fmt.Errorf("it answered %s", res.Status), res.Body.Close())
}

// body tells of progress, and of being alive.
type body struct {
	r           io.Reader
	done, total int64
	progress    func(done, total int64)
	idle        *time.Timer
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if n > 0 {
		b.idle.Reset(stall)
		b.done += int64(n)
		if b.progress != nil {
			b.progress(b.done, b.total)
		}
	}
	return n, err
}

// because is why a request ended: the reason of its context where that ended it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
