package apiserver

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/schema"
)

// nodeURL returns where the agent of a node listens, by the name of the node:
// reach.Way knows the address, and that it is the node that answers.
func (s *Server) nodeURL(name string) (*url.URL, error) {
	n, err := s.nodeOf(name)
	if err != nil {
		return nil, err
	}
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port == 0 {
		port = 10250
	}
	if len(NodeHosts(n)) == 0 {
		return nil, apierrors.NewInternalError(fmt.Errorf("no preferred addresses found; known addresses: %v", n.Status.Addresses))
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(name, strconv.Itoa(port))}, nil
}

func (s *Server) nodeOf(name string) (*corev1.Node, error) {
	it := s.cfg.Store.Get(schema.ResourceFor[*corev1.Node](), schema.Key{Name: name})
	if it == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return it.Object.(*corev1.Node), nil
}

// NodeHosts are the addresses by which the server calls a node, the best first.
func NodeHosts(n *corev1.Node) []string {
	var out []string
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeHostName, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == kind && a.Address != "" {
				out = append(out, a.Address)
			}
		}
	}
	return out
}

// podOf returns the pod that a route names.
func (s *Server) podOf(rt *route) (*corev1.Pod, error) {
	it := s.cfg.Store.Get(schema.ResourceFor[*corev1.Pod](), schema.Key{Namespace: rt.Namespace, Name: rt.Name})
	if it == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), rt.Name)
	}
	return it.Object.(*corev1.Pod), nil
}

// containerOf checks the container that a request names, or finds the only one.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	var all []string
	for _, c := range pod.Spec.InitContainers {
		all = append(all, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		all = append(all, c.Name)
	}
	if name != "" {
		for _, have := range all {
			if have == name {
				return name, nil
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	switch len(pod.Spec.Containers) {
	case 1:
		return pod.Spec.Containers[0].Name, nil
	case 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, all))
}

// podNode is the address of the node of a pod. A node that is gone is told as
// upstream tells it: as a pod of that name.
func (s *Server) podNode(pod *corev1.Pod) (*url.URL, error) {
	u, err := s.nodeURL(pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(corev1.Resource("pods"), pod.Spec.NodeName)
	}
	return u, err
}
