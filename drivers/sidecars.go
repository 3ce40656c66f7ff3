package drivers

// The images of the sidecars that Kubernetes provides for all CSI drivers, as OpenShift builds them.
var (
	ProvisionerImage         = Image{Env: "PROVISIONER_IMAGE", Default: "quay.io/openshift/origin-csi-external-provisioner:4.21"}
	AttacherImage            = Image{Env: "ATTACHER_IMAGE", Default: "quay.io/openshift/origin-csi-external-attacher:4.21"}
	ResizerImage             = Image{Env: "RESIZER_IMAGE", Default: "quay.io/openshift/origin-csi-external-resizer:4.21"}
	SnapshotterImage         = Image{Env: "SNAPSHOTTER_IMAGE", Default: "quay.io/openshift/origin-csi-external-snapshotter:4.21"}
	NodeDriverRegistrarImage = Image{Env: "NODE_DRIVER_REGISTRAR_IMAGE", Default: "quay.io/openshift/origin-csi-node-driver-registrar:4.21"}
	LivenessProbeImage       = Image{Env: "LIVENESS_PROBE_IMAGE", Default: "quay.io/openshift/origin-csi-livenessprobe:4.21"}
	KubeRBACProxyImage       = Image{Env: "KUBE_RBAC_PROXY_IMAGE", Default: "quay.io/openshift/origin-kube-rbac-proxy:4.21"}
)

// SidecarImages are the images that drivers share. Not every driver runs all of them.
var SidecarImages = []Image{ProvisionerImage, AttacherImage, ResizerImage, SnapshotterImage, NodeDriverRegistrarImage, LivenessProbeImage, KubeRBACProxyImage}
