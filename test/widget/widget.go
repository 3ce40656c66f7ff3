// Package widget defines an imaginary driver, for tests of the files generated from drivers' definitions.
package widget

import (
	"testing/fstest"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
)

// Driver returns a small driver with one of everything that a bundle is generated from.
func Driver() drivers.Driver {
	return drivers.Driver{
		Name:    "widget",
		CSIName: "widget.csi.example.com",
		Package: drivers.Package{
			Name:           "widget-operator",
			DisplayName:    "Widget Operator",
			Summary:        "Installs the widget CSI driver.",
			Description:    "Installs the widget CSI driver.\n\n## Use\n\nAsk for it.\n",
			Icon:           []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
			Keywords:       []string{"widget"},
			Channel:        "stable",
			Replaces:       "widget-operator.v0.0.9",
			MinKubeVersion: "1.27.0",
			Examples: fstest.MapFS{
				"1-driver.yaml": {Data: []byte("apiVersion: operator.openshift.io/v1\nkind: ClusterCSIDriver\nmetadata: {name: widget.csi.example.com}\n")},
				"2-box.yaml":    {Data: []byte("apiVersion: widgets.example.com/v1\nkind: WidgetBox\nmetadata: {name: example}\nspec: {size: 3}\n")},
			},
		},
		Operator: drivers.Operator{
			Name:  "widget-operator",
			Lock:  "widget-operator-lock",
			Image: "quay.io/example/widget-operator:v1",
			Env:   []string{"CLIENTID"},
			Rules: []permissions.Rule{
				{For: "To pack widgets", Group: "widgets.example.com", Resources: []string{"widgetboxes"}, Verbs: []string{"get", "list", "watch"}},
			},
		},
		Images: []drivers.Image{
			{Env: "DRIVER_IMAGE", Default: "quay.io/example/widget:v1"},
			{Env: "NODE_REGISTRAR_IMAGE", Default: "quay.io/example/registrar:v1"},
		},
		Assets: fstest.MapFS{
			"crd.yaml": {Data: []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgetboxes.widgets.example.com}
spec:
  group: widgets.example.com
  names: {kind: WidgetBox, listKind: WidgetBoxList, plural: widgetboxes, singular: widgetbox}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        description: |-
          WidgetBox holds
          widgets.
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, enum: [red, blue], description: Color of the box.}
              lidURL: {type: string, description: LidURL is where the lid is described.}
              locked: {type: boolean, title: Is Locked}
              owner:
                type: object
                properties:
                  userID: {type: string}
              size: {type: integer}
              tags: {type: array, items: {type: string}}
          status:
            type: object
            properties:
              phase: {type: string, description: Phase of the box.}
  - name: v1alpha1
    served: false
    storage: false
    schema:
      openAPIV3Schema: {type: object}
`)},
			"node.yaml": {Data: []byte(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: widget-node, namespace: "${NAMESPACE}"}
spec:
  template:
    spec:
      containers:
      - {name: driver, image: "${DRIVER_IMAGE}"}
      - {name: registrar, image: "${NODE_REGISTRAR_IMAGE}"}
`)},
		},
	}
}
