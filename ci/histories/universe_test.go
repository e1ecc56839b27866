package histories

import (
	"fmt"
	"strings"
)

// thing is an object that random commits declare, in several variants.
type thing struct {
	kind, namespace, name string
	variants              []string // the manifest without apiVersion, kind and metadata
	version               string
}

func (t *thing) id() string {
	if t.namespace == "" {
		return t.kind + "/" + t.name
	}
	return t.kind + "/" + t.namespace + "/" + t.name
}

// key is the thing as commands of a history name it.
func (t *thing) key() string { return strings.TrimPrefix(t.id(), t.kind+"/") }

// manifest is the thing as one line of YAML.
func (t *thing) manifest(variant int, note string) string {
	meta := "name: " + t.name
	if t.namespace != "" {
		meta += ", namespace: " + t.namespace
	}
	if note != "" {
		meta += ", annotations: {" + note + "}"
	}
	rest := t.variants[variant%len(t.variants)]
	if rest != "" {
		rest = ", " + rest
	}
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {%s}%s}\n", t.version, t.kind, meta, rest)
}

// notes are the annotations that change what a commit may do.
var notes = []string{"", "", "", "", "writ.dev/replace: allowed", "writ.dev/protect: \"true\"", "writ.dev/prune: disabled"}

// turns are notes, and those that say when an object's turn is.
var turns = append(notes[:len(notes):len(notes)], "writ.dev/wave: \"1\"", "writ.dev/wave: \"1\"", "writ.dev/wave: \"-1\"", "argocd.argoproj.io/sync-wave: \"2\"",
	"writ.dev/depends-on: ConfigMap/a/c0", "writ.dev/depends-on: Namespace/b", "writ.dev/depends-on: Deployment/a/d", "writ.dev/depends-on: CustomResourceDefinition/foos.t.dev")

const pods = "template: {metadata: {labels: {a: %[1]s}}, spec: {%[3]scontainers: [{name: c, image: \"i:%[2]d\"}]}}"

func podTemplate(label string, image int, more string) string {
	return fmt.Sprintf(pods, label, image, more)
}

func workload(label string, image int, more string) string {
	return "spec: {selector: {matchLabels: {a: " + label + "}}, " + more + podTemplate(label, image, "") + "}"
}

func claims(size string) string {
	return "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: " + size + "}}}}], "
}

const definition = "spec: {group: t.dev, scope: Namespaced, names: {plural: foos, singular: foo, kind: Foo}, versions: [{name: v1, served: true, storage: true, " +
	"schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {n: {type: integer, default: 7}, m: {type: integer}%s}}}}}}]}"

// universe are all things, few and with few names, so that they meet.
func universe() []*thing {
	var all []*thing
	add := func(version, kind, namespace, name string, variants ...string) {
		all = append(all, &thing{kind, namespace, name, variants, version})
	}
	add("v1", "Namespace", "", "a", "")
	add("v1", "Namespace", "", "b", "")
	add("rbac.authorization.k8s.io/v1", "ClusterRole", "", "r", `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`, `rules: []`)
	add("scheduling.k8s.io/v1", "PriorityClass", "", "p", "value: 1", "value: 2", "value: 1, description: x")
	add("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "foos.t.dev", fmt.Sprintf(definition, ""), fmt.Sprintf(definition, ", k: {type: string}"))
	for _, ns := range []string{"a", "b"} {
		for _, name := range []string{"c0", "c1", "c2"} {
			add("v1", "ConfigMap", ns, name, "", "data: {n: one}", "data: {n: two, m: x}", "data: {m: \"\"}")
		}
		add("v1", "ConfigMap", ns, "i", "data: {n: one}, immutable: true", "data: {n: two}, immutable: true", "data: {n: one}")
		add("v1", "Secret", ns, "s", "stringData: {n: one}", "data: {n: b25l}", "data: {n: dHdv}, type: t/x", "stringData: {n: three}")
		add("v1", "ServiceAccount", ns, "sa", "", "automountServiceAccountToken: false")
		add("v1", "Service", ns, "web", "spec: {selector: {a: d}, ports: [{port: 80}]}", "spec: {selector: {a: d}, ports: [{port: 81}, {name: x, port: 82}]}",
			"spec: {clusterIP: None, selector: {a: d}, ports: [{port: 80}]}", "spec: {type: NodePort, selector: {a: e}, ports: [{port: 80}]}")
		add("apps/v1", "Deployment", ns, "d", workload("d", 1, ""), workload("d", 2, "replicas: 2, "), workload("e", 1, "replicas: 0, "), workload("d", 1, "revisionHistoryLimit: 0, "))
		add("apps/v1", "StatefulSet", ns, "db", workload("db", 1, "serviceName: web, "+claims("1Gi")), workload("db", 2, "serviceName: web, "+claims("1Gi")),
			workload("db", 1, "serviceName: web, "+claims("2Gi")), workload("db", 1, "serviceName: other, replicas: 2, "+claims("1Gi")))
		add("apps/v1", "DaemonSet", ns, "ds", workload("ds", 1, ""), workload("ds", 2, ""))
		add("batch/v1", "Job", ns, "j", "spec: {"+podTemplate("j", 1, "restartPolicy: Never, ")+"}", "spec: {"+podTemplate("j", 2, "restartPolicy: Never, ")+"}",
			"spec: {parallelism: 2, "+podTemplate("j", 1, "restartPolicy: Never, ")+"}")
		add("batch/v1", "CronJob", ns, "cj", "spec: {schedule: \"0 0 1 1 *\", jobTemplate: {spec: {"+podTemplate("cj", 1, "restartPolicy: Never, ")+"}}}",
			"spec: {schedule: \"0 0 1 2 *\", suspend: true, jobTemplate: {spec: {"+podTemplate("cj", 1, "restartPolicy: Never, ")+"}}}")
		add("v1", "Pod", ns, "p", "spec: {containers: [{name: c, image: \"i:1\"}]}", "spec: {containers: [{name: c, image: \"i:2\"}]}", "spec: {nodeSelector: {x: y}, containers: [{name: c, image: \"i:1\"}]}")
		add("v1", "PersistentVolumeClaim", ns, "v", "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}", "spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}",
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}")
		add("v1", "ResourceQuota", ns, "q", "spec: {hard: {configmaps: \"3\"}}", "spec: {hard: {configmaps: \"9\", pods: \"1\"}}", "spec: {hard: {secrets: \"1\", services.nodeports: \"0\", count/foos.t.dev: \"1\"}}",
			"spec: {hard: {persistentvolumeclaims: \"1\", requests.storage: 1Gi}}")
		add("v1", "LimitRange", ns, "l", "spec: {limits: [{type: Container, default: {cpu: 100m}}]}", "spec: {limits: [{type: Container, max: {cpu: \"1\"}}, {type: PersistentVolumeClaim, max: {storage: 1Gi}}]}")
		add("rbac.authorization.k8s.io/v1", "Role", ns, "r", `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`, `rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]`)
		add("rbac.authorization.k8s.io/v1", "RoleBinding", ns, "rb", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [{kind: ServiceAccount, name: sa, namespace: a}]`,
			`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}, subjects: [{kind: ServiceAccount, name: sa, namespace: a}]`, `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}`)
		add("policy/v1", "PodDisruptionBudget", ns, "b", "spec: {minAvailable: 1, selector: {matchLabels: {a: d}}}", "spec: {maxUnavailable: 1, selector: {matchLabels: {a: d}}}")
		add("autoscaling/v2", "HorizontalPodAutoscaler", ns, "h", "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}, maxReplicas: 3}", "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}, minReplicas: 2, maxReplicas: 3}")
		add("networking.k8s.io/v1", "Ingress", ns, "in", "spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}", "spec: {ingressClassName: x, defaultBackend: {service: {name: web, port: {number: 80}}}}")
		add("networking.k8s.io/v1", "NetworkPolicy", ns, "np", "spec: {podSelector: {}}", "spec: {podSelector: {matchLabels: {a: d}}, policyTypes: [Egress]}")
		add("t.dev/v1", "Foo", ns, "f0", "spec: {n: 1}", "spec: {m: 2}", "spec: {k: x}", "")
		add("t.dev/v1", "Foo", ns, "f1", "spec: {n: 1}", "spec: {m: 2}")
	}
	return all
}
