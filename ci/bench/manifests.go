package main

import "fmt"

// deployment declares the i-th Deployment, of no pods; round changes it.
func deployment(i, round int) string { return deploymentOf(i, round, 0) }

func deploymentOf(i, round, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: d-%[1]d, namespace: bench, annotations: {round: "%[2]d"}}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: d-%[1]d}}
  template:
    metadata: {labels: {app: d-%[1]d}}
    spec:
      containers:
        - name: main
          image: writ.local/pause:v1
          ports: [{containerPort: 8080}]
          env: [{name: A, value: b}]
          resources: {requests: {cpu: 10m, memory: 16Mi}}
`, i, round, replicas)
}

func configMap(i, round int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-%[1]d, namespace: bench}\ndata: {round: \"%[2]d\", key: \"%0100[1]d\"}\n", i, round)
}

func service(i, round int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s-%[1]d, namespace: bench, annotations: {round: \"%[2]d\"}}\n"+
		"spec: {selector: {app: d-%[1]d}, ports: [{port: 80, targetPort: 8080}]}\n", i, round)
}

// mixed declares a tenth Deployments, three tenths Services, and ConfigMaps.
func mixed(i, round int) string {
	return []func(int, int) string{deployment, service, configMap}[kindOf(i)](i, round)
}

// collections are where mixed objects are created.
var collections = []string{"/apis/apps/v1/namespaces/bench/deployments", "/api/v1/namespaces/bench/services", "/api/v1/namespaces/bench/configmaps"}

// kindOf is the place of a mixed object's kind in collections.
func kindOf(i int) int { return []int{0, 1, 1, 1, 2, 2, 2, 2, 2, 2}[i%10] }
