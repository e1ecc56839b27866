package auth

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExtensionAuthentication returns the ConfigMap from which aggregated API
// servers learn whom to trust: the CA of clients, and, if there is a front
// proxy (nil: none), its CA (in PEM form) and headers. It is
// kube-system/extension-apiserver-authentication, and the role
// extension-apiserver-authentication-reader lets them read it.
func ExtensionAuthentication(clientCA, frontProxyCA []byte, p *FrontProxy) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"},
		Data:       map[string]string{},
	}
	if len(clientCA) > 0 {
		cm.Data["client-ca-file"] = string(clientCA)
	}
	if p == nil {
		return cm, nil
	}
	cm.Data["requestheader-client-ca-file"] = string(frontProxyCA)
	for key, list := range map[string][]string{
		"requestheader-allowed-names":        p.AllowedNames,
		"requestheader-username-headers":     p.UserHeaders,
		"requestheader-uid-headers":          p.UIDHeaders,
		"requestheader-group-headers":        p.GroupHeaders,
		"requestheader-extra-headers-prefix": p.ExtraPrefixes,
	} {
		if list == nil {
			list = []string{} // "null" would not be read as a list
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", key, err)
		}
		cm.Data[key] = string(text)
	}
	return cm, nil
}
