package nodeagent

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/writ-os/writ/nodeagent/pod"
)

// Every loop of a node is in the metric, under its own name.
func TestHeldLoopsAreCounted(t *testing.T) {
	a := &Agent{pods: &pod.Pods{}, cfg: Config{Held: map[string]func() uint64{
		"settings": func() uint64 { return 7 }, "update": func() uint64 { return 0 }}}}
	reg := prometheus.NewRegistry()
	reg.MustRegister(a.metrics()...)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			got[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	const name = "writ_loop_idle_wakes_total "
	if len(got) != 3 || got[name+"settings"] != 7 {
		t.Errorf("metrics: %v", got)
	}
	for _, loop := range []string{"pod", "settings", "update"} {
		if _, ok := got[name+loop]; !ok {
			t.Errorf("the loop %s is not counted", loop)
		}
	}
}
