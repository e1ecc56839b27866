package stats

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// descriptions of /metrics/resource: upstream's names, labels and words
// (STABLE ones are part of its API).
var (
	ofContainer = []string{"container", "pod", "namespace"}
	ofPod       = []string{"pod", "namespace"}

	nodeCPU         = prometheus.NewDesc("node_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the node in core-seconds", nil, nil)
	nodeMemory      = prometheus.NewDesc("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes", nil, nil)
	containerCPU    = prometheus.NewDesc("container_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the container in core-seconds", ofContainer, nil)
	containerMemory = prometheus.NewDesc("container_memory_working_set_bytes", "[STABLE] Current working set of the container in bytes", ofContainer, nil)
	containerStart  = prometheus.NewDesc("container_start_time_seconds", "[STABLE] Start time of the container since unix epoch in seconds", ofContainer, nil)
	podCPU          = prometheus.NewDesc("pod_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds", ofPod, nil)
	podMemory       = prometheus.NewDesc("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes", ofPod, nil)
	scrapeError     = prometheus.NewDesc("resource_scrape_error", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
	oldScrapeError  = prometheus.NewDesc("scrape_error", "[ALPHA] 1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// Metrics are a Summary as /metrics/resource shows it. It implements
// prometheus.Collector; a nil Summary is one that could not be taken.
type Metrics struct{ Summary *statsapi.Summary }

// Describe implements prometheus.Collector.
func (m Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		nodeCPU, nodeMemory, containerCPU, containerMemory, containerStart, podCPU, podMemory, scrapeError, oldScrapeError,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(ch chan<- prometheus.Metric) {
	failed := 0.0
	if m.Summary == nil {
		failed = 1
	} else {
		m.collect(ch)
	}
	ch <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, failed)
	ch <- prometheus.MustNewConstMetric(oldScrapeError, prometheus.GaugeValue, failed)
}

func (m Metrics) collect(ch chan<- prometheus.Metric) {
	usage(ch, nodeCPU, nodeMemory, m.Summary.Node.CPU, m.Summary.Node.Memory)
	for i := range m.Summary.Pods {
		p := &m.Summary.Pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := []string{c.Name, p.PodRef.Name, p.PodRef.Namespace}
			if !c.StartTime.IsZero() {
				ch <- prometheus.MustNewConstMetric(containerStart, prometheus.GaugeValue, float64(c.StartTime.UnixNano())/float64(time.Second), labels...)
			}
			usage(ch, containerCPU, containerMemory, c.CPU, c.Memory, labels...)
		}
		usage(ch, podCPU, podMemory, p.CPU, p.Memory, p.PodRef.Name, p.PodRef.Namespace)
	}
}

// usage writes figures with the time when they were taken.
func usage(ch chan<- prometheus.Metric, cpu, memory *prometheus.Desc, c *statsapi.CPUStats, m *statsapi.MemoryStats, labels ...string) {
	if c != nil && c.UsageCoreNanoSeconds != nil {
		v := float64(*c.UsageCoreNanoSeconds) / float64(time.Second)
		ch <- prometheus.NewMetricWithTimestamp(c.Time.Time, prometheus.MustNewConstMetric(cpu, prometheus.CounterValue, v, labels...))
	}
	if m != nil && m.WorkingSetBytes != nil {
		v := float64(*m.WorkingSetBytes)
		ch <- prometheus.NewMetricWithTimestamp(m.Time.Time, prometheus.MustNewConstMetric(memory, prometheus.GaugeValue, v, labels...))
	}
}
