package apiserver

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// streamOptions reads the query of exec, attach or portforward.
func streamOptions(sub string, q url.Values) (runtime.Object, error) {
	switch sub {
	case "exec":
		return &corev1.PodExecOptions{
			Stdin: isTrue(q["stdin"]), Stdout: isTrue(q["stdout"]), Stderr: isTrue(q["stderr"]), TTY: isTrue(q["tty"]),
			Container: q.Get("container"), Command: q["command"],
		}, nil
	case "attach":
		return &corev1.PodAttachOptions{
			Stdin: isTrue(q["stdin"]), Stdout: isTrue(q["stdout"]), Stderr: isTrue(q["stderr"]), TTY: isTrue(q["tty"]),
			Container: q.Get("container"),
		}, nil
	}
	o := &corev1.PodPortForwardOptions{}
	for _, list := range q["ports"] {
		for _, p := range strings.Split(list, ",") {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot convert to []int32: %v", err))
			}
			o.Ports = append(o.Ports, int32(n)) //nolint:gosec // 16 bits
		}
	}
	return o, nil
}

// streamTarget is what the node's server is asked for, in its own words.
func streamTarget(pod *corev1.Pod, options runtime.Object) (path string, query url.Values, err error) {
	query = url.Values{}
	set := func(name string, on bool) {
		if on {
			query.Set(name, "1")
		}
	}
	verb, container := "exec", ""
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		set("input", o.Stdin)
		set("output", o.Stdout)
		set("error", o.Stderr)
		set("tty", o.TTY)
		query["command"] = o.Command
		container = o.Container
	case *corev1.PodAttachOptions:
		set("input", o.Stdin)
		set("output", o.Stdout)
		set("error", o.Stderr)
		set("tty", o.TTY)
		verb, container = "attach", o.Container
	case *corev1.PodPortForwardOptions:
		var ports []string
		for _, p := range o.Ports {
			ports = append(ports, strconv.Itoa(int(p)))
		}
		if len(ports) > 0 {
			query.Set("port", strings.Join(ports, ","))
		}
		return "/portForward/" + pod.Namespace + "/" + pod.Name, query, nil
	}
	if container, err = containerOf(pod, container); err != nil {
		return "", nil, err
	}
	return "/" + verb + "/" + pod.Namespace + "/" + pod.Name + "/" + container, query, nil
}
