package schema

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/yaml"
)

func parse[T Object](t *testing.T, text string) T {
	t.Helper()
	o, err := Decode(ResourceFor[T](), YAML, []byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	return o.(T)
}

// convertTo converts one object to the version of T.
func convertTo[T Object](t *testing.T, o Object) T {
	t.Helper()
	before := o.DeepCopyObject()
	out, err := ResourceFor[T]().Convert(context.Background(), []Object{o})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, o); diff != "" {
		t.Errorf("the conversion has changed what it was given: %s", diff)
	}
	return out[0].(T)
}

const autoscaler = `
metadata: {name: web, namespace: default, annotations: {mine: kept}}
spec:
  scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}
  minReplicas: 2
  maxReplicas: 5
  metrics:
  - {type: Pods, pods: {metric: {name: requests}, target: {type: AverageValue, averageValue: "100"}}}
  - {type: Object, object: {describedObject: {kind: Ingress, name: main}, metric: {name: hits, selector: {matchLabels: {a: b}}}, target: {type: Value, value: 1k}}}
  - {type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "30"}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: app, target: {type: Utilization, averageUtilization: 40}}}
  - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
  behavior:
    scaleDown: {selectPolicy: Min, stabilizationWindowSeconds: 60, tolerance: 200m, policies: [{type: Pods, value: 4, periodSeconds: 60}]}
status:
  currentReplicas: 2
  desiredReplicas: 3
  observedGeneration: 4
  currentMetrics:
  - {type: Resource, resource: {name: cpu, current: {averageUtilization: 55, averageValue: 10m}}}
  conditions:
  - {type: AbleToScale, status: "True", reason: Ready, message: all well}
`

// TestAutoscalerGoesAndComesBack keeps in autoscaling/v1 all that it has no
// fields for.
func TestAutoscalerGoesAndComesBack(t *testing.T) {
	want := parse[*autoscalingv2.HorizontalPodAutoscaler](t, autoscaler)
	v1 := convertTo[*autoscalingv1.HorizontalPodAutoscaler](t, want)
	if p := v1.Spec.TargetCPUUtilizationPercentage; p == nil || *p != 60 {
		t.Errorf("target of the CPU: %v", p)
	}
	if p := v1.Status.CurrentCPUUtilizationPercentage; p == nil || *p != 55 {
		t.Errorf("current CPU: %v", p)
	}
	for key, part := range map[string]string{
		metricsAnnotation:        `{"type":"Pods","pods":{"metricName":"requests","targetAverageValue":"100"}}`,
		behaviorAnnotation:       `"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}]`,
		conditionsAnnotation:     `"type":"AbleToScale"`,
		currentMetricsAnnotation: `"currentAverageUtilization":55`,
		"mine":                   "kept",
	} {
		if !strings.Contains(v1.Annotations[key], part) {
			t.Errorf("annotation %s: %s", key, v1.Annotations[key])
		}
	}
	got := convertTo[*autoscalingv2.HorizontalPodAutoscaler](t, v1)
	a, _ := yaml.Marshal(want)
	b, _ := yaml.Marshal(got)
	if diff := cmp.Diff(string(a), string(b)); diff != "" {
		t.Errorf("after both conversions (-want +got):\n%s", diff)
	}
}

// TestAutoscalerDefaults aims at the CPU when nothing is said, and ignores
// annotations that cannot be read.
func TestAutoscalerDefaults(t *testing.T) {
	v1 := parse[*autoscalingv1.HorizontalPodAutoscaler](t, `
metadata: {name: web, namespace: default, annotations: {autoscaling.alpha.kubernetes.io/metrics: "{not json"}}
spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 3}`)
	v2 := convertTo[*autoscalingv2.HorizontalPodAutoscaler](t, v1)
	if len(v2.Spec.Metrics) != 1 || *v2.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 || len(v2.Annotations) != 0 {
		t.Errorf("got %+v, annotations %v", v2.Spec.Metrics, v2.Annotations)
	}
}

func TestEventGoesAndComesBack(t *testing.T) {
	want := parse[*corev1.Event](t, `
metadata: {name: web.1, namespace: default}
involvedObject: {kind: Pod, name: web, namespace: default}
reason: Scheduled
message: assigned
source: {component: scheduler, host: n1}
firstTimestamp: "2026-01-01T12:00:00Z"
lastTimestamp: "2026-01-01T12:05:00Z"
count: 3
type: Normal
eventTime: "2026-01-01T12:00:00.000001Z"
series: {count: 3, lastObservedTime: "2026-01-01T12:05:00.000001Z"}
action: Binding
related: {kind: Node, name: n1}
reportingComponent: scheduler
reportingInstance: scheduler-0`)
	e := convertTo[*eventsv1.Event](t, want)
	if e.Note != "assigned" || e.Regarding.Name != "web" || e.DeprecatedCount != 3 || e.Series.Count != 3 || e.APIVersion != "events.k8s.io/v1" {
		t.Errorf("got %+v", e)
	}
	if diff := cmp.Diff(want, convertTo[*corev1.Event](t, e)); diff != "" {
		t.Errorf("after both conversions (-want +got):\n%s", diff)
	}
}

// TestConvertKeepsWhatFits returns the slice itself when nothing is to be done.
func TestConvertKeepsWhatFits(t *testing.T) {
	r := ResourceFor[*corev1.Event]()
	in := []Object{r.New(), r.New()}
	out, err := r.Convert(context.Background(), in)
	if err != nil || &out[0] != &in[0] {
		t.Errorf("the slice was copied (%v)", err)
	}
	in = append(in, ResourceFor[*eventsv1.Event]().New())
	out, err = r.Convert(context.Background(), in)
	if err != nil || out[0] != in[0] || ResourceOf(out[2]) != r || ResourceOf(in[2]) == r {
		t.Errorf("mixed versions: %v, %v", out, err)
	}
}

// TestSecondVersions are kept as the version that upstream stores.
func TestSecondVersions(t *testing.T) {
	seen := map[string]string{}
	for _, r := range Resources {
		if r.Storage != nil {
			seen[r.APIVersion()+" "+r.Kind] = r.Storage.APIVersion()
			if r.Stored().Convert == nil || r.Convert == nil || len(r.Columns) == 0 {
				t.Errorf("%s is not complete", r)
			}
		}
	}
	want := map[string]string{"events.k8s.io/v1 Event": "v1", "autoscaling/v1 HorizontalPodAutoscaler": "autoscaling/v2"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if n := len(Builtin.Stored()); n != len(Resources)-len(want) {
		t.Errorf("%d of %d resources are kept", n, len(Resources))
	}
}
