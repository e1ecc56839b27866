package support

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Pods, and what makes them: the way from each kind to the spec of its pods.
var (
	_ = fields[corev1.Pod](through("spec"))
	_ = fields[corev1.PodTemplate](through("template"))
	_ = fields[corev1.PodTemplateSpec](through("spec"))
	_ = fields[corev1.ReplicationController](through("spec"))
	_ = fields[corev1.ReplicationControllerSpec](through("template"))
	_ = fields[appsv1.Deployment](through("spec"))
	_ = fields[appsv1.DeploymentSpec](through("template"))
	_ = fields[appsv1.ReplicaSet](through("spec"))
	_ = fields[appsv1.ReplicaSetSpec](through("template"))
	_ = fields[appsv1.DaemonSet](through("spec"))
	_ = fields[appsv1.DaemonSetSpec](through("template"))
	_ = fields[appsv1.StatefulSet](through("spec"))
	_ = fields[appsv1.StatefulSetSpec](through("template"), warned("volumeClaimTemplates", noVolumes, insteadOfClaims))
	_ = fields[batchv1.Job](through("spec"))
	_ = fields[batchv1.JobSpec](through("template"))
	_ = fields[batchv1.CronJob](through("spec"))
	_ = fields[batchv1.CronJobSpec](through("jobTemplate"))
	_ = fields[batchv1.JobTemplateSpec](through("spec"))
)

// TemplateOf returns the template of what makes pods, and where it is; nil of
// another object.
func TemplateOf(o any) (*corev1.PodTemplateSpec, *field.Path) {
	at := field.NewPath("spec", "template")
	switch o := o.(type) {
	case *corev1.PodTemplate:
		return &o.Template, field.NewPath("template")
	case *corev1.ReplicationController:
		return o.Spec.Template, at
	case *appsv1.Deployment:
		return &o.Spec.Template, at
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, at
	case *appsv1.DaemonSet:
		return &o.Spec.Template, at
	case *appsv1.StatefulSet:
		return &o.Spec.Template, at
	case *batchv1.Job:
		return &o.Spec.Template, at
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template, field.NewPath("spec", "jobTemplate", "spec", "template")
	}
	return nil, nil
}

const (
	noVolumes       = "no storage driver is there and nothing binds claims, so the pods stay Pending"
	insteadOfClaims = "use an emptyDir for data that may be lost with the pod, or a hostPath on a named node"
	noDevices       = "no device driver is there and nothing allocates claims of devices, so the pod would start without them"
	insteadOfDevice = "leave it out"
)

var _ = fields[corev1.PodSpec](
	honoured(`volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds
		dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID
		shareProcessNamespace securityContext imagePullSecrets hostname subdomain affinity tolerations hostAliases priorityClassName
		priority dnsConfig readinessGates enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN
		schedulingGates hostnameOverride`),
	partly("hostIPC", "The pod shares the node's System V and POSIX message queues; /dev/shm stays the container's own."),
	partly("schedulerName", "There is one scheduler, default-scheduler. A pod that names another waits for it, as in Kubernetes."),
	refused("hostUsers", "no node maps users, so root in the pod would be root on the node", "leave it out, and run as another user than root").
		when("`false`", is(false)).leftOut(),
	honoured("runtimeClassName"),
	refused("runtimeClassName", "every container is run by runc, and a node refuses pods of classes with another handler", "leave it out").
		when("anything but `runc`", isNot("runc")).onlyGit(),
	refused("resourceClaims", noDevices, insteadOfDevice).leftOut(),
	partly("resources", "Requests count when the pod is placed."),
	refused("resources", "no node limits a pod as a whole, so its containers could take all of the node", "set the limits of each container").
		when("with limits", func(v reflect.Value) bool {
			r, ok := read[corev1.ResourceRequirements](v)
			return ok && len(r.Limits) > 0
		}).leftOut(),
	refused("schedulingGroup", "the pods of a group are placed one by one, so some may run while others wait", "leave it out").leftOut(),
	honoured("os"),
)

var (
	_ = fields[corev1.PodOS](refused("name", "the nodes run Linux", "use an image of Linux").when("anything but `linux`", isNot(corev1.Linux)).onlyGit())
	_ = fields[corev1.LocalObjectReference](honoured("name"))
	_ = fields[corev1.HostAlias](honoured("ip hostnames"))
	_ = fields[corev1.PodDNSConfig](honoured("nameservers searches options"))
	_ = fields[corev1.PodDNSConfigOption](honoured("name value"))
	_ = fields[corev1.PodReadinessGate](honoured("conditionType"))
	_ = fields[corev1.PodSchedulingGate](honoured("name"))
)

// annotationRow is a row of an annotation that pods or services are steered by.
type annotationRow struct {
	name string // with a slash at the end: every name below
	fine string // the value that asks for nothing
	row  Row
}

var annotationRows = []annotationRow{
	{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, corev1.DeprecatedAppArmorBetaProfileNameUnconfined,
		Row{Verdict: Lacking, API: Refuse, Git: Refuse, Values: "anything but `unconfined`", Why: noAppArmor, Instead: insteadOfAppArmor, LeftOut: true}},
	{"kubernetes.io/ingress-bandwidth", "", Row{Verdict: Lacking, API: Warn, Git: Warn, Why: noBandwidth, Instead: leaveOut}},
	{"kubernetes.io/egress-bandwidth", "", Row{Verdict: Lacking, API: Warn, Git: Warn, Why: noBandwidth, Instead: leaveOut}},
	{corev1.AnnotationLoadBalancerSourceRangesKey, "", Row{Verdict: Lacking, API: Refuse, Git: Refuse, Why: noSourceRanges, Instead: insteadOfRanges, LeftOut: true}},
}

const (
	leaveOut    = "leave it out"
	noBandwidth = "nothing limits the traffic of a pod"
)
