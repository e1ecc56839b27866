package apiserver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/writ-os/writ/schema"
)

// metrics carry upstream's names and labels, so that dashboards work.
type metrics struct {
	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	sizes       *prometheus.HistogramVec
	inFlight    *prometheus.GaugeVec
	longRunning *prometheus.GaugeVec
	events      *prometheus.CounterVec
	panics      prometheus.Counter
}

func newMetrics(reg *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_response_sizes",
			Help:    "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
			Buckets: []float64{1e3, 1e4, 1e5, 1e6, 1e7, 1e8},
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests",
			Help: "Number of currently used inflight request slots of this apiserver, by request kind.",
		}, []string{"request_kind"}),
		longRunning: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total",
			Help: "Number of events sent in watch clients.",
		}, []string{"group", "version", "resource"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_request_panics_total",
			Help: "Number of requests that caused a panic.",
		}),
	}
	reg.MustRegister(m.requests, m.durations, m.sizes, m.inFlight, m.longRunning, m.events, m.panics)
	return m
}

func metricsHandler(reg *prometheus.Registry) http.Handler {
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		_ = reg.Register(c) // whoever wires the process may have registered them
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// observe counts a request that has ended. Paths that are no resources share
// one series: clients choose them freely.
func (m *metrics) observe(x *exchange) {
	rt := &x.route
	verb, resource, sub := metricVerb(x), rt.Plural, rt.Subresource
	group, version, scope := rt.Group, rt.Version, rt.scope()
	if !rt.IsResource || !x.known {
		group, version, resource, sub, scope = "", "", "", "", ""
	}
	dry := ""
	if x.dryRun {
		dry = "All"
	}
	const component = "apiserver"
	m.requests.WithLabelValues(verb, dry, group, version, resource, sub, scope, component, strconv.Itoa(x.code)).Inc()
	if rt.longRunning() {
		return
	}
	m.durations.WithLabelValues(verb, dry, group, version, resource, sub, scope, component).Observe(time.Since(x.began).Seconds())
	if rt.Verb == "get" || rt.Verb == "list" {
		m.sizes.WithLabelValues(verb, group, version, resource, sub, scope, component).Observe(float64(x.bytes))
	}
}

// track counts a request while it runs.
func (m *metrics) track(x *exchange) (done func()) {
	rt := &x.route
	if rt.longRunning() && x.known {
		g := m.longRunning.WithLabelValues(metricVerb(x), rt.Group, rt.Version, rt.Plural, rt.Subresource, rt.scope(), "apiserver")
		g.Inc()
		return g.Dec
	}
	kind := "mutating"
	if rt.readOnly() {
		kind = "readOnly"
	}
	g := m.inFlight.WithLabelValues(kind)
	g.Inc()
	return g.Dec
}

// watchEvents counts the events that are sent to watchers of a resource.
func (m *metrics) watchEvents(r *schema.Resource) prometheus.Counter {
	return m.events.WithLabelValues(r.Group, r.Version, r.Plural)
}

// metricVerb writes a verb as upstream's metrics do.
func metricVerb(x *exchange) string {
	switch x.route.Verb {
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "patch":
		if x.r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
			return "APPLY"
		}
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	case "post", "put", "options", "head":
		return x.r.Method
	}
	return "other"
}

// scope is how much of the cluster a request touches.
func (rt *route) scope() string {
	switch {
	case rt.Name != "" || rt.Verb == "create":
		return "resource"
	case rt.Namespace != "":
		return "namespace"
	case rt.IsResource:
		return "cluster"
	}
	return ""
}
