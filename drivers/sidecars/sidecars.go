// Package sidecars lists the images that drivers share: those of the containers that Kubernetes has for all CSI
// drivers, as OpenShift builds them.
package sidecars

import "github.com/berth-csi/berth/drivers"

// The images, by what their containers do.
var (
	Provisioner         = drivers.Image{Env: "PROVISIONER_IMAGE", Default: "quay.io/openshift/origin-csi-external-provisioner:4.21"}
	Attacher            = drivers.Image{Env: "ATTACHER_IMAGE", Default: "quay.io/openshift/origin-csi-external-attacher:4.21"}
	Resizer             = drivers.Image{Env: "RESIZER_IMAGE", Default: "quay.io/openshift/origin-csi-external-resizer:4.21"}
	Snapshotter         = drivers.Image{Env: "SNAPSHOTTER_IMAGE", Default: "quay.io/openshift/origin-csi-external-snapshotter:4.21"}
	NodeDriverRegistrar = drivers.Image{Env: "NODE_DRIVER_REGISTRAR_IMAGE", Default: "quay.io/openshift/origin-csi-node-driver-registrar:4.21"}
	LivenessProbe       = drivers.Image{Env: "LIVENESS_PROBE_IMAGE", Default: "quay.io/openshift/origin-csi-livenessprobe:4.21"}
	KubeRBACProxy       = drivers.Image{Env: "KUBE_RBAC_PROXY_IMAGE", Default: "quay.io/openshift/origin-kube-rbac-proxy:4.21"}
)
