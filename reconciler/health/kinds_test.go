package health

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// classes is a cluster with two storage classes.
type classes struct{}

func (classes) Get(_ *schema.Resource, key schema.Key) (schema.Object, bool) {
	mode := map[string]storagev1.VolumeBindingMode{"late": storagev1.VolumeBindingWaitForFirstConsumer, "now": storagev1.VolumeBindingImmediate}
	m, ok := mode[key.Name]
	return &storagev1.StorageClass{VolumeBindingMode: &m}, ok
}

func TestClaim(t *testing.T) {
	of := func(class string, annotations map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	}
	for name, c := range map[string]struct {
		o    *corev1.PersistentVolumeClaim
		live Live
		want Status
	}{
		"binds at once":       {of("now", nil), classes{}, Progressing},
		"waits for a pod":     {of("late", nil), classes{}, Healthy},
		"the pod is there":    {of("late", map[string]string{selectedNode: "n1"}), classes{}, Progressing},
		"class not known":     {of("other", nil), classes{}, Progressing},
		"cluster not known":   {of("late", nil), nil, Progressing},
		"without any class":   {of("", nil), classes{}, Progressing},
		"class not filled in": {&corev1.PersistentVolumeClaim{}, classes{}, Progressing},
	} {
		if got := In(c.o, c.live); got.Status != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestKinds(t *testing.T) {
	now := metav1.Now()
	budget := func(s policyv1.PodDisruptionBudgetStatus) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: s}
	}
	scaler := func(c ...autoscalingv2.HorizontalPodAutoscalerCondition) *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: c}}
	}
	request := func(certificate string, c ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
		r := &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte(certificate)}}
		for _, k := range c {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: k, Status: corev1.ConditionTrue, Message: "so"})
		}
		return r
	}
	crd := func(c ...apiextensionsv1.CustomResourceDefinitionCondition) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: c}}
	}
	service := func(s apiregistrationv1.ConditionStatus) *apiregistrationv1.APIService {
		return &apiregistrationv1.APIService{Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: s, Reason: "MissingEndpoints"}}}}
	}
	node := func(s corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s, Reason: "KubeletNotReady", Message: "no network"}}}}
	}
	pod := func(waiting, reason string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "init",
			RestartCount: 4, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: reason}}}}}}
	}
	for _, c := range []struct {
		name string
		o    schema.Object
		want Status
		says string
	}{
		{"budget unseen", budget(policyv1.PodDisruptionBudgetStatus{}), Progressing, notSeen},
		{"budget kept", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 2}), Healthy, ""},
		{"budget short", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 3, CurrentHealthy: 1, DesiredHealthy: 2}), Progressing, "1 pods are healthy, the budget asks for 2"},
		{"budget of nobody", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DesiredHealthy: 1}), Healthy, ""},
		{"budget of two kinds", budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{Type: "DisruptionAllowed", Status: "False", Reason: "SyncFailed", Message: "found no controllers"}}}), Degraded, "found no controllers"},
		{"scaler alone", scaler(), Healthy, ""},
		{"scaler at work", scaler(autoscalingv2.HorizontalPodAutoscalerCondition{Type: "AbleToScale", Status: "True"}, autoscalingv2.HorizontalPodAutoscalerCondition{Type: "ScalingLimited", Status: "False"}), Healthy, ""},
		{"scaler without target", scaler(autoscalingv2.HorizontalPodAutoscalerCondition{Type: "AbleToScale", Status: "False", Reason: "FailedGetScale", Message: "not found"}), Degraded, "cannot scale: FailedGetScale: not found"},
		{"scaler resting", scaler(autoscalingv2.HorizontalPodAutoscalerCondition{Type: "AbleToScale", Status: "False", Reason: "BackoffBoth"}), Healthy, ""},
		{"scaler blind", scaler(autoscalingv2.HorizontalPodAutoscalerCondition{Type: "ScalingActive", Status: "False", Reason: "FailedGetResourceMetric", Message: "no metrics"}), Degraded, "no metrics"},
		{"scaler of nothing", scaler(autoscalingv2.HorizontalPodAutoscalerCondition{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled"}), Healthy, "switched off"},
		{"request", request(""), Progressing, "waits for approval"},
		{"request approved", request("", "Approved"), Progressing, "not signed yet"},
		{"request signed", request("x", "Approved"), Healthy, ""},
		{"request denied", request("", "Denied"), Degraded, "denied: so"},
		{"request failed", request("", "Approved", "Failed"), Degraded, "cannot be signed: so"},
		{"definition new", crd(), Progressing, "not served yet"},
		{"definition served", crd(apiextensionsv1.CustomResourceDefinitionCondition{Type: "Established", Status: "True"}), Healthy, ""},
		{"definition in conflict", crd(apiextensionsv1.CustomResourceDefinitionCondition{Type: "NamesAccepted", Status: "False", Reason: "PluralConflict"}), Degraded, "PluralConflict"},
		{"service available", service("True"), Healthy, ""},
		{"service away", service("False"), Progressing, "MissingEndpoints"},
		{"service unseen", &apiregistrationv1.APIService{}, Progressing, notSeen},
		{"node ready", node("True"), Healthy, ""},
		{"node lost", node("Unknown"), Degraded, "KubeletNotReady: no network"},
		{"node new", &corev1.Node{}, Progressing, "not reported"},
		{"device claim", &resourcev1.ResourceClaim{}, Healthy, ""},
		{"device broken", &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Devices: []resourcev1.AllocatedDeviceStatus{{Driver: "gpu", Device: "0", Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Message: "hot"}}}}}}, Degraded, "device 0 of gpu is not ready: hot"},
		{"cron job that failed", &batchv1.CronJob{Status: batchv1.CronJobStatus{LastScheduleTime: &now}}, Healthy, ""},
		{"ingress without address", &networkingv1.Ingress{}, Healthy, ""},
		{"addresses not ready", &networkingv1.ServiceCIDR{Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Message: "overlaps"}}}}, Progressing, "overlaps"},
		{"ending with finalizer", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{"example.com/x"}}}, Progressing, "waits for example.com/x"},
		{"namespace ending", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{{Type: "NamespaceContentRemaining", Status: "True", Message: "pods. has 1 resource instances"}}}}, Progressing, "pods. has 1"},
		{"paused", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}}, Healthy, "is paused"},
		{"replica set refused", &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: "True", Message: "exceeded quota"}}}}, Degraded, "exceeded quota"},
		{"pod crashing", pod("CrashLoopBackOff", "Error"), Degraded, "container init: CrashLoopBackOff (exit code 3, Error, 4 restarts)"},
		{"pod without image", pod("ErrImageNeverPull", ""), Degraded, "ErrImageNeverPull"},
		{"pod pulling", pod("PodInitializing", ""), Progressing, "container init: PodInitializing"},
		{"pod gated", &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: corev1.PodReasonSchedulingGated}}}}, Progressing, "gates"},
		{"pod failed", &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}}}}, Degraded, "container c ended with exit code 137: OOMKilled"},
	} {
		if got := Of(c.o); got.Status != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, got.Status, got.Message, c.want, c.says)
		}
	}
}

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	if err := normalize(u); err != nil {
		t.Fatal(err)
	}
	return u
}

// normalize has the numbers of an object as they come from a store.
func normalize(u *unstructured.Unstructured) error {
	data, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return u.UnmarshalJSON(data)
}

func TestCustom(t *testing.T) {
	for _, c := range []struct {
		status string
		want   Status
		says   string
	}{
		{`{}`, Healthy, ""},
		{`{observedGeneration: 1}`, Progressing, notSeen},
		{`{observedGeneration: 2}`, Healthy, ""},
		{`{conditions: [{type: Ready, status: "True"}]}`, Healthy, ""},
		{`{conditions: [{type: Ready, status: "False", reason: NoDisk, message: full}]}`, Progressing, "is not ready yet: NoDisk: full"},
		{`{conditions: [{type: Ready, status: Unknown}]}`, Progressing, "not ready"},
		{`{conditions: [{type: Ready}]}`, Progressing, "not ready"},
		{`{conditions: [{type: Ready, status: "True", observedGeneration: 1}]}`, Progressing, notSeen},
		{`{conditions: [{type: Ready, status: "True"}, {type: Stalled, status: "True", reason: BadSpec}]}`, Degraded, "Stalled: BadSpec"},
		{`{conditions: [{type: Ready, status: "True"}, {type: Reconciling, status: "True", message: halfway}]}`, Progressing, "halfway"},
		{`{conditions: [{type: Reconciling, status: "False"}, {type: Stalled, status: "False"}]}`, Healthy, ""},
		{`{conditions: [{type: Available, status: "False", message: no endpoints}]}`, Progressing, "not available yet: no endpoints"},
		{`{conditions: [{type: Degraded, status: "True", message: one of three}]}`, Degraded, "one of three"},
		{`{phase: Running}`, Healthy, ""},
		{`{phase: Failed, message: no quorum}`, Degraded, "is Failed: no quorum"},
		{`{phase: Provisioning}`, Progressing, "is Provisioning"},
		{`{state: error, reason: X}`, Degraded, "is error: X"},
		{`{phase: Purple}`, Healthy, ""},
		{`{phase: [1], conditions: 3}`, Healthy, ""},
		{`{conditions: [1, {type: 3}]}`, Healthy, ""},
		{`"text"`, Healthy, ""},
	} {
		u := parse(t, "apiVersion: db.example.com/v1\nkind: Database\nmetadata: {name: x, generation: 2}\nstatus: "+c.status+"\n")
		if got := Of(u); got.Status != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.status, got.Status, got.Message, c.want, c.says)
		}
		if got := Of(u); got.Stalled != strings.HasPrefix(got.Message, "Stalled") {
			t.Errorf("%s: stalled: %v", c.status, got.Stalled)
		}
	}
}

func TestRepository(t *testing.T) {
	ready := func(s metav1.ConditionStatus) v1alpha1.RepositoryStatus {
		return v1alpha1.RepositoryStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: s, Message: "connection refused"}}}
	}
	applied := ready(metav1.ConditionFalse)
	applied.Applied = "abc"
	for _, c := range []struct {
		name string
		repo v1alpha1.Repository
		want Status
	}{
		{"new", v1alpha1.Repository{}, Progressing},
		{"suspended from the first", v1alpha1.Repository{Spec: v1alpha1.RepositorySpec{Suspend: true}}, Healthy},
		{"not read", v1alpha1.Repository{Status: ready(metav1.ConditionFalse)}, Degraded},
		{"read, and nothing applied", v1alpha1.Repository{Status: ready(metav1.ConditionTrue)}, Progressing},
		{"away, and something is applied", v1alpha1.Repository{Status: applied}, Healthy},
	} {
		if got := Of(&c.repo); got.Status != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
