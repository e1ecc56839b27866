package schema

// ColumnFuncs names every function that a Column of the resource table may ask
// for, with what it returns. The API server holds one for each name; a test
// there and a test here keep the three lists equal.
//
// Texts follow kubectl of v1.36: "<none>" where a list is empty, durations as
// duration.HumanDuration prints them, "<unknown>" for a zero time.
var ColumnFuncs = map[string]string{
	// Every kind.
	"age":             `time since metadata.creationTimestamp: "5m"`,
	"createdAt":       `metadata.creationTimestamp in RFC 3339, UTC`,
	"controllerOf":    `controlling owner as kind.group/name in lower case: "daemonset.apps/web"`,
	"nameWithDefault": `name, with " (default)" when an annotation makes the class the default one`,
	"readyCondition":  `status of the condition Ready of status.conditions: "True"`,

	// Workloads. The template is spec.template or spec.jobTemplate.spec.template.
	"containerNames":  `names of the template's containers, joined by ","`,
	"containerImages": `images of the template's containers, joined by ","`,
	"selector":        `label selector (spec.selector, spec.podSelector, spec.jobTemplate.spec.selector) as text: "app=web"`,
	"nodeSelector":    `spec.template.spec.nodeSelector as text`,
	"readyReplicas":   `status.readyReplicas and spec.replicas: "2/3"`,

	"podReady":          `ready and all containers: "1/2"`,
	"podStatus":         `phase, or the reason that says more: "CrashLoopBackOff", "Init:0/1", "Terminating"`,
	"podRestarts":       `restarts of all containers, and when the last was: "3 (5m ago)"`,
	"podReadinessGates": `true and all readiness gates: "1/2"`,

	"jobStatus":           `"Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet" or "Running"`,
	"jobCompletions":      `succeeded and wanted: "1/1", "0/1 of 3"`,
	"jobDuration":         `from status.startTime to status.completionTime or now`,
	"cronJobSuspend":      `spec.suspend as "True", "False" or "<unset>"`,
	"cronJobActive":       `number of status.active`,
	"cronJobLastSchedule": `time since status.lastScheduleTime`,

	// Network.
	"serviceExternalIP":      `addresses of the load balancer, spec.externalIPs, spec.externalName, "<pending>" or "<none>"`,
	"servicePorts":           `"80/TCP,443:30443/TCP"`,
	"endpointsAddresses":     `first three addresses with port: "10.244.0.2:80,10.244.0.3:80 + 1 more..."`,
	"endpointSlicePorts":     `first three ports: "80,443"`,
	"endpointSliceAddresses": `first three addresses`,
	"ingressHosts":           `hosts of the rules, "*" when there are none`,
	"ingressAddress":         `addresses of status.loadBalancer.ingress`,
	"ingressPorts":           `"80" or "80, 443"`,
	"ingressClassParameters": `"Kind.group/name" of spec.parameters`,

	// Nodes and events.
	"nodeStatus":        `"Ready", "NotReady", "Unknown", with ",SchedulingDisabled"`,
	"nodeRoles":         `from the labels node-role.kubernetes.io/<role> and kubernetes.io/role`,
	"nodeInternalIP":    `first address of type InternalIP`,
	"nodeExternalIP":    `first address of type ExternalIP`,
	"nodeKernelVersion": `kernel version and " (architecture)"`,
	"eventLastSeen":     `time since series.lastObservedTime, lastTimestamp, firstTimestamp or eventTime`,
	"eventFirstSeen":    `time since firstTimestamp or eventTime`,
	"eventObject":       `involvedObject as "pod/web-0"`,
	"eventSource":       `"component, host" of source, or the reporting controller and instance`,
	"eventMessage":      `message without white space around it`,
	"eventCount":        `series.count, count, or 1`,

	// Storage, quotas, permissions, autoscaling.
	"dataCount":              `number of entries of data (and binaryData)`,
	"volumeCapacity":         `storage of spec.capacity (volume) or of status.capacity (bound claim)`,
	"volumeAccessModes":      `"RWO,ROX,RWX,RWOP" of the volume's spec or the bound claim's status`,
	"volumeStatus":           `status.phase, or "Terminating" while it is being deleted`,
	"volumeClaim":            `spec.claimRef as "namespace/name"`,
	"storageClassName":       `class from the beta annotation or spec.storageClassName`,
	"quotaRequests":          `used and hard of everything but limits: "cpu: 1/2, pods: 3/10"`,
	"quotaLimits":            `used and hard of limits.*`,
	"roleRef":                `"ClusterRole/view"`,
	"subjectUsers":           `names of subjects of kind User, joined by ", "`,
	"subjectGroups":          `names of subjects of kind Group, joined by ", "`,
	"subjectServiceAccounts": `"namespace/name" of subjects of kind ServiceAccount, joined by ", "`,
	"scaleTarget":            `spec.scaleTargetRef as "Deployment/web"`,
	"hpaTargets":             `each metric's current and target value: "cpu: 10%/50%", "<unknown>"`,

	// Certificates, extensions, fairness, devices.
	"templateLabels":       `labels of the template: "app=web"`,
	"parentRef":            `spec.parentRef as "services/default/web", "<none>" without`,
	"serviceCIDRs":         `spec.cidrs joined by ","`,
	"driverCount":          `number of spec.drivers`,
	"driverAttachRequired": `spec.attachRequired, true when it is left out`,
	"driverAudiences":      `audiences of spec.tokenRequests joined by ",", "<unset>" without`,
	"driverModes":          `spec.volumeLifecycleModes joined by ","`,
	"csrDuration":          `spec.expirationSeconds as a duration: "24h"`,
	"csrCondition":         `"Pending", "Approved", "Denied", with ",Failed" and ",Issued"`,
	"webhookCount":         `number of webhooks`,
	"policyRules":          `number of spec.validations or spec.mutations`,
	"policyParamKind":      `spec.paramKind as "apps/v1/Deployment"`,
	"policyParamRef":       `spec.paramRef as "namespace/name", "*/name" or its selector`,
	"apiServiceTarget":     `"namespace/name" of spec.service, "Local" without`,
	"apiServiceAvailable":  `status of the condition Available, with " (Reason)" unless it is True`,
	"runtimeHandler":       `handler`,
	"flowPrecedence":       `spec.matchingPrecedence`,
	"flowDangling":         `status of the condition Dangling, "?" without`,
	"levelShares":          `spec.limited.nominalConcurrencyShares, "<none>" without`,
	"levelQueues":          `queues of spec.limited.limitResponse.queuing`,
	"levelHandSize":        `handSize of spec.limited.limitResponse.queuing`,
	"levelQueueLength":     `queueLengthLimit of spec.limited.limitResponse.queuing`,
	"componentStatus":      `"Healthy", "Unhealthy" or "Unknown"`,
	"componentMessage":     `message of the condition Healthy`,
	"componentError":       `error of the condition Healthy`,
	"claimState":           `"pending", "allocated,reserved", "deleted"`,

	// Our own group.
	"repositoryApplied": `first 12 digits of status.applied`,
	"nodeImageDigest":   `first 12 digits of spec.digest`,
	"nodeImageFailed":   `number of status.failed`,
	"commitReady":       `status.ready and status.objects: "3/5"`,
	"commitSubject":     `first line of spec.message`,
}
