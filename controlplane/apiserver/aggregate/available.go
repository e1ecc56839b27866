package aggregate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/endpoint"
	"github.com/writ-os/writ/schema"
)

// verdict is what is to be said of an APIService.
type verdict struct {
	status          apiregistrationv1.ConditionStatus
	reason, message string
}

func unavailable(reason, format string, args ...any) *verdict {
	return &verdict{apiregistrationv1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

// judge says what the cluster's objects tell of an APIService, with upstream's
// words; nil when the server itself has to be asked.
func judge(s *apiregistrationv1.APIService, c client.Cache) *verdict {
	ref := s.Spec.Service
	if ref == nil {
		return &verdict{apiregistrationv1.ConditionTrue, "Local", "Local APIServices are always available"}
	}
	o, ok := c.Get(schema.ResourceFor[*corev1.Service](), schema.Key{Namespace: ref.Namespace, Name: ref.Name})
	svc, _ := o.(*corev1.Service)
	if !ok || svc == nil {
		return unavailable("ServiceNotFound", "service/%s in %q is not present", ref.Name, ref.Namespace)
	}
	if svc.Spec.Type != corev1.ServiceTypeClusterIP {
		return nil
	}
	p := endpoint.PortOf(svc, port(ref))
	if p == nil {
		return unavailable("ServicePortError", "service/%s in %q is not listening on port %d", ref.Name, ref.Namespace, port(ref))
	}
	slices := endpoint.Slices(c, ref.Namespace, ref.Name)
	if len(slices) == 0 {
		return unavailable("EndpointsNotFound", "cannot find endpointslices for service/%s in %q", ref.Name, ref.Namespace)
	}
	if len(endpoint.Ready(slices, p.Name)) == 0 {
		return unavailable("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", ref.Name, ref.Namespace, p.Name)
	}
	return nil
}

// check looks at all APIServices, asks the servers that can be asked, all at
// once, and publishes what came out.
func (a *Aggregator) check(ctx context.Context) {
	next := map[kschema.GroupVersion]*target{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, o := range a.cfg.Cache.List(services(), "") {
		s, ok := o.(*apiregistrationv1.APIService)
		if !ok || s.DeletionTimestamp != nil {
			continue
		}
		v := judge(s, a.cfg.Cache)
		if s.Spec.Service == nil {
			a.report(ctx, s, *v)
			continue
		}
		gv := kschema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
		all.Go(func() {
			t, v := a.examine(ctx, s, a.target(gv), v)
			mu.Lock()
			next[gv] = t
			mu.Unlock()
			a.report(ctx, s, v)
		})
	}
	all.Wait()
	if a.differs(next) {
		a.set(next)
	}
}

// examine asks a server whether it is there and what it has.
func (a *Aggregator) examine(ctx context.Context, s *apiregistrationv1.APIService, old *target, v *verdict) (*target, verdict) {
	t := &target{spec: s.Spec}
	if old != nil {
		t.discovery, t.hash = old.discovery, old.hash
		if same(&old.spec, &s.Spec) {
			t.transport = old.transport
		} else if old.transport != nil {
			old.transport.CloseIdleConnections()
		}
	}
	if t.transport == nil {
		var err error
		if t.transport, err = a.transportFor(&s.Spec); err != nil {
			return t, *unavailable("FailedDiscoveryCheck", "%v", err)
		}
	}
	if v == nil {
		if err := a.ask(ctx, t); err != nil {
			v = unavailable("FailedDiscoveryCheck", "%v", err)
			t.transport.CloseIdleConnections()
		}
	}
	if v != nil {
		t.discovery = stale(t.discovery)
		return t, *v
	}
	t.available = true
	return t, verdict{apiregistrationv1.ConditionTrue, "Passed", "all checks passed"}
}

// The bounds of asking another server.
const (
	askTimeout   = 5 * time.Second
	maxDiscovery = 8 << 20 // bytes
)

// ask reads what a server has: /apis/<group>/<version>.
func (a *Aggregator) ask(ctx context.Context, t *target) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	path := "/apis/" + t.spec.Group + "/" + t.spec.Version
	if t.spec.Group == "" {
		path = "/api/" + t.spec.Version
	}
	resp, err := a.fetch(ctx, t, path, "application/json")
	if err != nil {
		return fmt.Errorf("failing or missing response from %s: %w", path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDiscovery))
	switch {
	case err != nil:
		return fmt.Errorf("failing or missing response from %s: %w", path, err)
	case resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("failing or missing response from %s: bad status from %s: %d", path, path, resp.StatusCode)
	}
	if t.discovery, err = read(data, t.spec.Version); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	t.hash = hashOf(data)
	return nil
}

// report writes the Available condition where it has changed.
func (a *Aggregator) report(ctx context.Context, s *apiregistrationv1.APIService, v verdict) {
	want := withCondition(s, v, time.Now())
	if want == nil {
		return
	}
	_, err := a.cfg.Client.Update(ctx, services(), want, client.WriteOptions{Subresource: "status", FieldManager: "kube-apiserver"})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		a.log.Warn("write status of APIService", "name", s.Name, "err", err)
	}
}

// withCondition returns the APIService with the verdict; nil when it has it.
func withCondition(s *apiregistrationv1.APIService, v verdict, now time.Time) *apiregistrationv1.APIService {
	c := apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available, Status: v.status, Reason: v.reason, Message: v.message,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
	at := -1
	for i, have := range s.Status.Conditions {
		if have.Type != c.Type {
			continue
		}
		at = i
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
		if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
			return nil
		}
	}
	s = s.DeepCopy()
	if at >= 0 {
		s.Status.Conditions[at] = c
	} else {
		s.Status.Conditions = append(s.Status.Conditions, c)
	}
	return s
}
