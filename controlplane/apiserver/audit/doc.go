// Package audit records who asked the API server for what, and what came of
// it, in the form and under the policies of Kubernetes (audit.k8s.io/v1).
//
// It watches requests: the server calls Begin when it knows who asks, and End
// when the answer is out. It owns the audit log and its rotation. It promises
// that a request that the policy does not record costs one rule evaluation,
// that in blocking-strict mode nothing is done that could not be recorded, and
// that no Secret, ConfigMap or token is written unless the policy asks for the
// bodies of requests.
package audit
