package support

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

var _ = fields[corev1.Container](honoured(`name image command args workingDir ports envFrom env resources resizePolicy restartPolicy
	restartPolicyRules volumeMounts livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy
	imagePullPolicy securityContext stdin stdinOnce tty`),
	refused("volumeDevices", noVolumes, insteadOfClaims),
)

var (
	_ = fields[corev1.EphemeralContainer](honoured("EphemeralContainerCommon targetContainerName"))
	_ = fields[corev1.EphemeralContainerCommon](honoured(`name image command args workingDir envFrom env volumeMounts terminationMessagePath
		terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty`),
		ignored("ports resources resizePolicy restartPolicy restartPolicyRules livenessProbe readinessProbe startupProbe lifecycle",
			"Kubernetes refuses it in an ephemeral container."),
		refused("volumeDevices", noVolumes, insteadOfClaims))
)

var (
	_ = fields[corev1.ContainerPort](honoured("name hostPort containerPort protocol hostIP"))
	_ = fields[corev1.EnvFromSource](honoured("prefix configMapRef secretRef"))
	_ = fields[corev1.ConfigMapEnvSource](honoured("LocalObjectReference optional"))
	_ = fields[corev1.SecretEnvSource](honoured("LocalObjectReference optional"))
	_ = fields[corev1.EnvVar](honoured("name value valueFrom"))
	_ = fields[corev1.EnvVarSource](honoured("fieldRef resourceFieldRef configMapKeyRef secretKeyRef"),
		refused("fileKeyRef", "no node reads variables from files of volumes, so the container would not start", "use a configMapKeyRef or a secretKeyRef"))
	_ = fields[corev1.ObjectFieldSelector](honoured("fieldPath"), ignored("apiVersion", "There is one version of pods, v1."))
	_ = fields[corev1.ResourceFieldSelector](honoured("containerName resource divisor"))
	_ = fields[corev1.ConfigMapKeySelector](honoured("LocalObjectReference key optional"))
	_ = fields[corev1.SecretKeySelector](honoured("LocalObjectReference key optional"))
	_ = fields[corev1.ContainerResizePolicy](honoured("resourceName restartPolicy"))
	_ = fields[corev1.ContainerRestartRule](honoured("exitCodes"), honoured("action"),
		refused("action", "no node restarts a whole pod, so the container alone would end", "use the action Restart").
			when("`RestartAllContainers`", is(corev1.ContainerRestartRuleActionRestartAllContainers)))
	_ = fields[corev1.ContainerRestartRuleOnExitCodes](honoured("operator values"))
	_ = fields[corev1.VolumeMount](honoured("name readOnly mountPath subPath mountPropagation subPathExpr"),
		partly("recursiveReadOnly", "Enabled needs Linux 5.12: an older node refuses the pod."))
	_ = fields[corev1.Probe](honoured("ProbeHandler initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds"))
	_ = fields[corev1.ProbeHandler](honoured("exec httpGet tcpSocket grpc"))
	_ = fields[corev1.ExecAction](honoured("command"))
	_ = fields[corev1.HTTPGetAction](honoured("path port host scheme httpHeaders"))
	_ = fields[corev1.HTTPHeader](honoured("name value"))
	_ = fields[corev1.TCPSocketAction](honoured("port host"))
	_ = fields[corev1.GRPCAction](honoured("port service"))
	_ = fields[corev1.Lifecycle](honoured("postStart preStop"),
		refused("stopSignal", "a container is stopped by SIGTERM, whatever signal it asks for", "send the signal in a preStop hook").leftOut())
	_ = fields[corev1.LifecycleHandler](honoured("exec httpGet sleep"), partly("tcpSocket", "It fails, as in Kubernetes: no version has ever run one."))
	_ = fields[corev1.SleepAction](honoured("seconds"))
)

var _ = fields[corev1.ResourceRequirements](
	partly("requests", "A resource that no node has (extended resources, huge pages) keeps the pod Pending, as in Kubernetes."),
	honoured("limits"),
	warned("limits[ephemeral-storage]", "no node measures what a container writes, so it is not stopped at the limit", "request ephemeral-storage, which counts when pods are placed"),
	refused("claims", noDevices, insteadOfDevice).leftOut(),
)

var _ = fields[corev1.SecurityContext](
	honoured("capabilities privileged runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation seccompProfile"),
	honoured("procMount"),
	refused("procMount", "it needs a user namespace, and no node has one for pods", "leave it out").when("`Unmasked`", is(corev1.UnmaskedProcMount)).leftOut(),
	honoured("seLinuxOptions"), honoured("appArmorProfile"),
	ignored("windowsOptions", "The nodes run Linux, where Kubernetes ignores it too."),
)

var _ = fields[corev1.PodSecurityContext](
	honoured("runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup seccompProfile"),
	partly("sysctls", "Those that are safe by Kubernetes' list, and those that a node's --allowed-unsafe-sysctls names; a node refuses pods with others."),
	honoured("seLinuxOptions"), honoured("appArmorProfile"),
	ignored("windowsOptions", "The nodes run Linux, where Kubernetes ignores it too."),
	ignored("fsGroupChangePolicy", "It says when the files of claims are given to the group; there are no claims, and the other volumes are always given to it."),
	ignored("seLinuxChangePolicy", "It says how files are labelled for SELinux, which no node has."),
)

const (
	noSELinux         = "no node has SELinux, so it confines nothing, as on any node without it"
	noAppArmor        = "no node loads or applies AppArmor profiles, so it would confine nothing"
	insteadOfAppArmor = "leave it out; a seccompProfile is honoured"
)

var (
	_ = fields[corev1.Capabilities](honoured("add drop"))
	_ = fields[corev1.SeccompProfile](honoured("type localhostProfile"))
	_ = fields[corev1.Sysctl](honoured("name value"))
	_ = fields[corev1.AppArmorProfile](honoured("type"), honoured("localhostProfile"),
		refused("type", noAppArmor, insteadOfAppArmor).when("anything but `Unconfined`", isNot(corev1.AppArmorProfileTypeUnconfined)).withAll())
	// spc_t is the type of those who are not to be confined.
	_ = fields[corev1.SELinuxOptions](honoured("type"),
		refused("type", noSELinux, "leave it out; a seccompProfile is honoured").when("anything but `spc_t`", func(v reflect.Value) bool { return isNot("spc_t")(v) }).leftOut(),
		warned("user role level", noSELinux, leaveOut))
)
