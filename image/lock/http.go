package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// client is the HTTP client of this package. It has no limit for a whole
// answer, which a slow line may need long for; a mirror that stops sending is
// noticed by idleTimeout.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		MaxIdleConnsPerHost:   parallel,
		IdleConnTimeout:       30 * time.Second,
		// A .deb is compressed, and its digest is of what is sent.
		DisableCompression: true,
	}}
}

const idleTimeout = 30 * time.Second

// errGone is what a mirror says of a file that was superseded.
var errGone = errors.New("the mirror no longer has it")

// open asks for url. The caller closes the body, which fails when nothing was
// received for idleTimeout.
func open(ctx context.Context, hc *http.Client, url string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	req.Header.Set("User-Agent", "writ-image")
	res, err := hc.Do(req)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusOK:
		b := &body{ReadCloser: res.Body, cause: func() error { return context.Cause(ctx) }, cancel: cancel}
		b.idle = time.AfterFunc(idleTimeout, func() { cancel(fmt.Errorf("nothing was received for %v", idleTimeout)) })
		return b, nil
	case http.StatusNotFound, http.StatusGone:
		err = errGone
	default:
		err = fmt.Errorf("the mirror answers %s", res.Status)
	}
	cancel(nil)
	_ = res.Body.Close()
	return nil, fmt.Errorf("get %s: %w", url, err)
}

type body struct {
	io.ReadCloser
	cause  func() error // why the request was given up, if it was
	cancel context.CancelCauseFunc
	idle   *time.Timer
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		b.idle.Reset(idleTimeout)
	} else if cause := b.cause(); cause != nil && !errors.Is(err, io.EOF) {
		err = cause
	}
	return n, err
}

func (b *body) Close() error {
	b.idle.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// get reads the whole answer of at most limit bytes, with retries.
func get(ctx context.Context, hc *http.Client, url string, limit int64) (b []byte, err error) {
	err = retry(ctx, func() error {
		r, err := open(ctx, hc, url)
		if err != nil {
			return err
		}
		defer r.Close()
		if b, err = io.ReadAll(io.LimitReader(r, limit+1)); err != nil {
			return fmt.Errorf("get %s: %w", url, err)
		}
		if int64(len(b)) > limit {
			return fmt.Errorf("get %s: it has more than %d bytes", url, limit)
		}
		return nil
	})
	return b, err
}

const attempts = 4

// retry calls do until it succeeds, waiting 1, 2 and 4 seconds between. What
// is gone does not come back.
func retry(ctx context.Context, do func() error) error {
	wait := time.Second
	for n := 1; ; n++ {
		err := do()
		if err == nil || n == attempts || errors.Is(err, errGone) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
			wait *= 2
		}
	}
}
