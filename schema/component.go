package schema

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ComponentStatuses is the one kind that can be read and is kept nowhere: what
// the API server sees of the components of the control plane at the time it is
// asked. It is no row of the table, so that nobody stores or watches it.
var ComponentStatuses = &Resource{
	Group: "", Version: "v1", Kind: "ComponentStatus", ListKind: "ComponentStatusList",
	Plural: "componentstatuses", Singular: "componentstatus", ShortNames: []string{"cs"},
	Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
	Columns: []Column{
		{Name: "Name", Type: "string", Format: "name", Path: "metadata.name", Description: Resources[0].Columns[0].Description},
		{Name: "Status", Type: "string", Func: "componentStatus", Description: "Status of the component conditions"},
		{Name: "Message", Type: "string", Func: "componentMessage", Description: "Message of the component conditions"},
		{Name: "Error", Type: "string", Func: "componentError", Description: "Error of the component conditions"},
	},
	New: func() Object {
		return &corev1.ComponentStatus{TypeMeta: metav1.TypeMeta{Kind: "ComponentStatus", APIVersion: "v1"}}
	},
	NewList: func() metav1.ListInterface {
		return &corev1.ComponentStatusList{TypeMeta: metav1.TypeMeta{Kind: "ComponentStatusList", APIVersion: "v1"}}
	},
}
