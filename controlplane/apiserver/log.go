package apiserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// log streams pods/<name>/log from the pod's node.
func (s *Server) log(x *exchange) error {
	q := x.r.URL.Query()
	params, err := logParams(x.route.Name, q)
	if err != nil {
		return err
	}
	pod, err := s.podOf(&x.route)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, q.Get("container"))
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" { // nothing has been logged yet
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	u, err := s.podNode(pod)
	if err != nil {
		return err
	}
	x.Header().Set("Content-Type", "text/plain")
	u.Path = "/containerLogs/" + pod.Namespace + "/" + pod.Name + "/" + container
	u.RawQuery = params.Encode()
	return s.copyLog(x, u, params.Has("follow"))
}

// copyLog copies the node's answer as it comes.
func (s *Server) copyLog(x *exchange, u *url.URL, follow bool) error {
	ctx, cancel := s.untilStopping(x)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	resp, err := s.cfg.Way.Nodes.RoundTrip(req)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("Get %q: %w", u.String(), err)) //nolint:staticcheck // upstream's text
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 206 {
		return nodeError(resp, x.route.Name)
	}
	x.WriteHeader(http.StatusOK)
	x.Flush()
	return x.copy(resp.Body, follow)
}

// copy sends a stream to the client; flush sends each piece at once. What goes
// wrong from here on can only end the connection.
func (x *exchange) copy(from io.Reader, flush bool) error {
	buf := *chunks.Get().(*[]byte)
	defer chunks.Put(&buf)
	buf = buf[:cap(buf)]
	for {
		n, err := from.Read(buf)
		if n > 0 {
			stuck := x.guardWrite()
			_, werr := x.Write(buf[:n])
			if flush {
				x.Flush()
			}
			stuck.Stop()
			if werr != nil {
				return nil // the client has gone
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the client must see that this is not the end of the log
		}
	}
}

// nodeError turns the text of a node agent into an error of the API.
func nodeError(resp *http.Response, pod string) error {
	const max = 16 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, max))
	text := strings.TrimSpace(string(body))
	switch resp.StatusCode {
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(text))
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(text)
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, "", corev1.Resource("pods/log"), pod, text, 0, true)
}

// logParams checks the options of a log request and writes them for the node.
func logParams(pod string, q url.Values) (url.Values, error) {
	params := url.Values{}
	for _, name := range []string{"follow", "previous", "timestamps"} {
		if isTrue(q[name]) {
			params.Set(name, "true")
		}
	}
	var errs field.ErrorList
	for _, o := range []struct {
		name  string
		least int64
	}{{"tailLines", 0}, {"limitBytes", 1}, {"sinceSeconds", 1}} {
		v := q.Get(o.name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil:
			return nil, apierrors.NewBadRequest(err.Error())
		case o.name == "sinceSeconds" && q.Get("sinceTime") != "":
		case n < o.least && o.least == 0:
			errs = append(errs, field.Invalid(field.NewPath(o.name), n, "must be greater than or equal to 0"))
		case n < o.least:
			errs = append(errs, field.Invalid(field.NewPath(o.name), n, "must be greater than 0"))
		}
		params.Set(o.name, v)
	}
	if v := q.Get("sinceTime"); v != "" {
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if params.Has("sinceSeconds") {
			errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
		}
		params.Set("sinceTime", v)
	}
	errs = append(errs, logStream(q)...)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), pod, errs)
	}
	return params, nil
}

// logStream refuses to tell a container's streams apart, which upstream offers
// behind a gate that is off (PodLogsQuerySplitStreams).
func logStream(q url.Values) field.ErrorList {
	if !q.Has("stream") {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("stream"), "may not be specified")}
}
