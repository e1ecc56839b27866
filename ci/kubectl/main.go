// Command kubectl is upstream's kubectl, built from its library so that a
// machine without one can get it from the Go module proxy alone. It lives in a
// module of its own: its dependencies are not the product's.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
