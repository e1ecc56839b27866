package plan

import "testing"

func TestLoops(t *testing.T) {
	for manager, want := range map[string]bool{
		"writ": true, "writ-flags": true, "system:kube-controller-manager": true, "kube-apiserver": true, "before-first-apply": true,
		"kubectl-edit": false, "kubectl-patch": false, "kubectl-client-side-apply": false, "helm": false, "argocd-controller": false, "": false,
	} {
		if got := loops(manager); got != want {
			t.Errorf("loops(%q) = %v", manager, got)
		}
	}
}
