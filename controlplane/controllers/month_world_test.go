package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

func monthConfig(f *client.Fake, reg *prometheus.Registry) Config {
	cfg := Config{
		Client: f, Cache: f.Cache(), CA: []byte("ca"), Server: "https://192.0.2.1:6443", ServerInside: "https://10.96.0.1",
		Certificates: Certificates{
			Sign: func(*certificatesv1.CertificateSigningRequest) ([]byte, bool, string, error) {
				return nil, false, "", nil
			},
			Node: func(*certificatesv1.CertificateSigningRequest) (string, bool) { return "", false },
			Allowed: func(context.Context, *certificatesv1.CertificateSigningRequest, string) (bool, error) {
				return false, nil
			},
			Serving: func(*certificatesv1.CertificateSigningRequest) (string, []string, bool) { return "", nil, false },
		},
		Tokens: Tokens{
			Legacy: func(*corev1.ServiceAccount, string) (string, error) { return "token", nil },
			Signed: func(info *corev1.ConfigMap, _ []*corev1.Secret, _ time.Time) (*corev1.ConfigMap, bool, error) {
				return info, false, nil
			},
			Expired: func(s *corev1.Secret, now time.Time) bool {
				at, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
				return err == nil && !now.Before(at)
			},
		},
	}
	if reg != nil {
		cfg.Metrics = controller.NewMetrics(reg)
	}
	return cfg
}

func meta(ns, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ns + "/" + name), Generation: 1}
}

func by(m metav1.ObjectMeta, version, kind, name string) metav1.ObjectMeta {
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID(m.Namespace + "/" + name), Controller: ptr.To(true)}}
	return m
}

func labelled(m metav1.ObjectMeta, app string) metav1.ObjectMeta {
	m.Labels = map[string]string{"app": app}
	return m
}

func going(m metav1.ObjectMeta, at time.Time, finalizers ...string) metav1.ObjectMeta {
	t := metav1.NewTime(at)
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds, m.Finalizers = &t, ptr.To(int64(30)), finalizers
	return m
}

func templateOf(app string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{RestartPolicy: restart, Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
}

func podIn(m metav1.ObjectMeta, node string, phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
	spec := templateOf("", corev1.RestartPolicyAlways).Spec
	spec.NodeName = node
	return &corev1.Pod{ObjectMeta: m, Spec: spec,
		Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
}

// world has objects of all controllers, in states in which they stay for ever.
func world(now time.Time) []schema.Object {
	var out []schema.Object
	for _, part := range []func(time.Time) []schema.Object{places, pods, workloads, jobs, services, guards, secrets} {
		out = append(out, part(now)...)
	}
	return out
}

func places(now time.Time) []schema.Object {
	var out []schema.Object
	for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	out = append(out, &corev1.Namespace{ObjectMeta: going(metav1.ObjectMeta{Name: "going"}, now), Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}})
	for name, status := range map[string]corev1.ConditionStatus{"silent": corev1.ConditionTrue, "unready": corev1.ConditionFalse} {
		out = append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(now)}}}})
	}
	at := metav1.NewTime(now)
	return append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "tainted"}, Spec: corev1.NodeSpec{
		PodCIDR: "10.244.9.0/24", Taints: []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}, {Key: "y", Effect: corev1.TaintEffectNoExecute}}}})
}

func pods(now time.Time) []schema.Object {
	held := podIn(going(meta("going", "held"), now, "example.com/held"), "silent", corev1.PodRunning, corev1.ConditionTrue)
	stuck := podIn(going(meta("default", "stuck"), now, "example.com/held"), "tainted", corev1.PodFailed, corev1.ConditionFalse)
	lost := podIn(labelled(meta("default", "lost"), "free"), "gone", corev1.PodRunning, corev1.ConditionTrue)
	lost.Finalizers = []string{"example.com/held"}
	tolerant := podIn(meta("default", "tolerant"), "tainted", corev1.PodRunning, corev1.ConditionTrue)
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return []schema.Object{held, stuck, lost, tolerant,
		podIn(labelled(meta("default", "free"), "free"), "silent", corev1.PodRunning, corev1.ConditionTrue),
		podIn(meta("default", "unplaced"), "", corev1.PodPending, corev1.ConditionFalse),
		podIn(meta("default", "ended"), "silent", corev1.PodSucceeded, corev1.ConditionFalse),
		podIn(labelled(by(meta("default", "orphaned"), "example.com/v1", "Thing", "thing"), "thing"), "silent", corev1.PodRunning, corev1.ConditionTrue)}
}

func workloads(now time.Time) []schema.Object {
	two, deadline := ptr.To(int32(2)), ptr.To(int32(60))
	set := func(name string) metav1.ObjectMeta { return labelled(meta("default", name), name) }
	selector := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	out := []schema.Object{
		&appsv1.Deployment{ObjectMeta: set("d"), Spec: appsv1.DeploymentSpec{Replicas: two, Selector: selector("d"), Template: templateOf("d", "Always"), ProgressDeadlineSeconds: deadline, MinReadySeconds: 5}},
		&appsv1.Deployment{ObjectMeta: set("paused"), Spec: appsv1.DeploymentSpec{Replicas: two, Paused: true, Selector: selector("paused"), Template: templateOf("paused", "Always"), ProgressDeadlineSeconds: deadline}},
		&appsv1.ReplicaSet{ObjectMeta: set("rs"), Spec: appsv1.ReplicaSetSpec{Replicas: two, Selector: selector("rs"), Template: templateOf("rs", "Always"), MinReadySeconds: 60}},
		&corev1.ReplicationController{ObjectMeta: set("rc"), Spec: corev1.ReplicationControllerSpec{Replicas: two, Selector: map[string]string{"app": "rc"}, Template: ptr.To(templateOf("rc", "Always"))}},
		&appsv1.StatefulSet{ObjectMeta: set("ss"), Spec: appsv1.StatefulSetSpec{Replicas: two, Selector: selector("ss"), Template: templateOf("ss", "Always"), ServiceName: "ss", MinReadySeconds: 60}},
		&appsv1.DaemonSet{ObjectMeta: set("ds"), Spec: appsv1.DaemonSetSpec{Selector: selector("ds"), Template: templateOf("ds", "Always"), MinReadySeconds: 60}},
	}
	ready := podIn(labelled(by(meta("default", "rs-ready"), "apps/v1", "ReplicaSet", "rs"), "rs"), "silent", corev1.PodRunning, corev1.ConditionTrue)
	ready.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now)
	return append(out, ready, podIn(labelled(by(meta("default", "rs-failed"), "apps/v1", "ReplicaSet", "rs"), "rs"), "silent", corev1.PodFailed, corev1.ConditionFalse))
}

func jobs(now time.Time) []schema.Object {
	at := metav1.NewTime(now)
	job := func(name string, change func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: meta("default", name), Spec: batchv1.JobSpec{Completions: ptr.To(int32(1)), Parallelism: ptr.To(int32(1)), BackoffLimit: ptr.To(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": name}}, Template: templateOf(name, "Never")}}
		j.Spec.Template.Labels["job"] = name
		change(j)
		return j
	}
	done := func(t batchv1.JobConditionType) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status = batchv1.JobStatus{StartTime: &at, CompletionTime: &at, Succeeded: 1, Conditions: []batchv1.JobCondition{{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: at}}}
		}
	}
	out := []schema.Object{
		job("complete", done(batchv1.JobComplete)), job("failed", done(batchv1.JobFailed)),
		job("suspended", func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }),
		job("runs", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To(int64(3600 * 24 * 365)) }),
		job("late", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To(int64(60)) }),
		job("cleared", func(j *batchv1.Job) {
			done(batchv1.JobComplete)(j)
			j.Spec.TTLSecondsAfterFinished = ptr.To(int32(3600))
		}),
		job("kept", func(j *batchv1.Job) {
			done(batchv1.JobComplete)(j)
			j.Spec.TTLSecondsAfterFinished = ptr.To(int32(3600 * 24 * 365))
		}),
	}
	for i := range 4 { // a Job that fails beyond its limit
		p := podIn(by(meta("default", fmt.Sprint("fails-", i)), "batch/v1", "Job", "fails"), "silent", corev1.PodFailed, corev1.ConditionFalse)
		p.Labels, p.Finalizers = map[string]string{"job": "fails"}, []string{batchv1.JobTrackingFinalizer}
		out = append(out, p)
	}
	out = append(out, job("fails", func(*batchv1.Job) {}))
	for name, schedule := range map[string]string{"hourly": "0 * * * *", "yearly": "0 0 1 1 *", "never": "0 0 31 2 *", "wrong": "x y z", "forbids": "0 * * * *", "sleeps": "* * * * *"} {
		c := &batchv1.CronJob{ObjectMeta: meta("default", name), Spec: batchv1.CronJobSpec{Schedule: schedule, Suspend: ptr.To(name == "sleeps"),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: templateOf(name, "Never")}}}}
		if name == "hourly" {
			c.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent
		}
		if name == "forbids" {
			c.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
			c.Spec.StartingDeadlineSeconds = ptr.To(int64(100))
			out = append(out, &batchv1.Job{ObjectMeta: by(meta("default", "forbids-1"), "batch/v1", "CronJob", "forbids")})
		}
		out = append(out, c)
	}
	return out
}

func services(time.Time) []schema.Object {
	ports := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}}
	p := podIn(labelled(meta("default", "served"), "served"), "tainted", corev1.PodRunning, corev1.ConditionTrue)
	p.Status.PodIP, p.Status.PodIPs = "10.244.9.2", []corev1.PodIP{{IP: "10.244.9.2"}}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return []schema.Object{p,
		&corev1.Service{ObjectMeta: meta("default", "served"), Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.20", ClusterIPs: []string{"10.96.0.20"}, Selector: map[string]string{"app": "served"}, Ports: ports}},
		&corev1.Service{ObjectMeta: meta("default", "headless"), Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: map[string]string{"app": "nobody"}, Ports: ports}},
		&corev1.Service{ObjectMeta: meta("default", "outside"), Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.21", ClusterIPs: []string{"10.96.0.21"}, Ports: ports}},
		&corev1.Endpoints{ObjectMeta: meta("default", "outside"), Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.7"}}, Ports: []corev1.EndpointPort{{Name: "http", Port: 80, Protocol: "TCP"}}}}}, //nolint:staticcheck // what is mirrored
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", UID: "cidr"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}},
		&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.99", UID: "ip", Labels: map[string]string{"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}}, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "gone"}}},
	}
}

func guards(now time.Time) []schema.Object {
	one := intstr.FromInt32(1)
	budget := func(name, app string, spec policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudget {
		spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		return &policyv1.PodDisruptionBudget{ObjectMeta: meta("default", name), Spec: spec}
	}
	return []schema.Object{
		budget("unmanaged", "free", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one}),
		budget("nobody", "nobody", policyv1.PodDisruptionBudgetSpec{MinAvailable: &one}),
		budget("unknown", "thing", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one}),
		budget("set", "rs", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one}),
		&corev1.ResourceQuota{ObjectMeta: meta("default", "quota"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1000"), "count/jobs.batch": resource.MustParse("2000")}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: going(meta("default", "claim"), now, "kubernetes.io/pvc-protection"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "volume"}},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("default", "fresh")},
		&corev1.PersistentVolume{ObjectMeta: going(metav1.ObjectMeta{Name: "volume", UID: "volume"}, now, "kubernetes.io/pv-protection"), Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}},
	}
}

func secrets(now time.Time) []schema.Object {
	token := func(id string, expires string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: meta("kube-system", "bootstrap-token-"+id), Type: "bootstrap.kubernetes.io/token", Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef")}}
		if expires != "" {
			s.Data["expiration"] = []byte(expires)
		}
		return s
	}
	csr := func(name string, age time.Duration, conds ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
		m := metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-age))}
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: m, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/x", Request: []byte("x")}, Status: certificatesv1.CertificateSigningRequestStatus{Conditions: conds}}
	}
	return []schema.Object{
		token("expire", now.Add(-time.Hour).Format(time.RFC3339)), token("soonex", now.Add(time.Hour).Format(time.RFC3339)),
		token("later0", now.AddDate(1, 0, 0).Format(time.RFC3339)), token("always", ""), token("wrong0", "tomorrow"),
		&corev1.ServiceAccount{ObjectMeta: meta("default", "builder")},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "made", UID: "made", Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder"}}, Type: corev1.SecretTypeServiceAccountToken},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nobodys", UID: "nobodys", Annotations: map[string]string{corev1.ServiceAccountNameKey: "gone"}}, Type: corev1.SecretTypeServiceAccountToken},
		csr("pending", time.Minute), csr("old", 48*time.Hour), csr("denied", time.Minute, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue}),
		csr("approved", time.Minute, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}),
	}
}
