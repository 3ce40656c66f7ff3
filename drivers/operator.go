package drivers

import (
	"fmt"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// operatorPort is the HTTPS port of an operator's health and metrics endpoints.
const operatorPort = 8443

// ServingCertFolder is where the operator's pod mounts the serving certificate. It is empty until the certificate
// exists.
const ServingCertFolder = "/var/run/secrets/serving-cert"

// memoryLimit is the memory limit of an operator's container. An operator with 10,000 SharedVolumes uses a quarter of
// it; see docs/contribute/develop.md. A Subscription's config.resources overrides it.
const memoryLimit = "512Mi"

// MemoryLimitEnv is the environment variable with the operator's memory limit in bytes.
const MemoryLimitEnv = "MEMORY_LIMIT"

// DriverLabel on an operator's Deployment names its driver: a cluster may have several operators, in any namespaces.
const DriverLabel = "berth.dev/csi-driver"

// OperatorDeployment returns the Deployment of the driver's operator, with the default images. Whoever installs it
// sets the namespace.
//
// Its name and its pods' labels must never change: an update of the operator writes the new Deployment over the old
// one, and a Deployment's selector is immutable.
func (d Driver) OperatorDeployment() *appsv1.Deployment {
	podLabels := map[string]string{"name": d.Operator.Name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Operator.Name, Labels: labels.Merge(podLabels, labels.Set{DriverLabel: d.CSIName})},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: podLabels},
			// The lock keeps two operators from being active at the same time, whatever the strategy. Recreate would wait until all old
			// pods have ended. If one is on a lost node, it would wait forever.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: labels.Merge(podLabels, NetworkPolicyLabels(d.operatorTraffic()...)),
					Annotations: map[string]string{
						"openshift.io/required-scc":               "restricted-v2",
						"target.workload.openshift.io/management": `{"effect": "PreferredDuringScheduling"}`,
					},
				},
				Spec: d.operatorPod(),
			},
		},
	}
}

// NetworkPolicyLabels returns the labels with which OpenShift's NetworkPolicies permit pods some kinds of traffic, such
// as "dns". Namespaces with these policies also have policies that deny all traffic, so pods without the labels are cut
// off.
func NetworkPolicyLabels(traffic ...string) map[string]string {
	found := map[string]string{}
	for _, kind := range traffic {
		found["openshift.storage.network-policy."+kind] = "allow"
	}
	return found
}

// operatorTraffic returns the kinds of the operator's traffic: with the API server, with readers of its metrics, and with the cloud, if
// it calls the cloud itself.
func (d Driver) operatorTraffic() []string {
	traffic := []string{"api-server", "dns", "operator-metrics-range"}
	if d.AsksCloud() {
		traffic = append(traffic, "all-egress")
	}
	return traffic
}

func (d Driver) operatorPod() corev1.PodSpec {
	pod := OperatorPod(d.Operator.Name, d.Operator.Image, "driver", d.Name)
	pod.Containers[0].Env = append(pod.Containers[0].Env, d.operatorEnv()...)
	if d.CloudAccess != nil {
		d.CloudAccess.mountToken(&pod)
	}
	return pod
}

// OperatorPod returns the pod of an operator. command is a command of berth-operator with its arguments.
func OperatorPod(name, image string, command ...string) corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName: name,
		PriorityClassName:  "system-cluster-critical",
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100,
				Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "node-role.kubernetes.io/master", Operator: corev1.NodeSelectorOpExists},
				}},
			}},
		}},
		Tolerations: []corev1.Toleration{
			{Key: "node-role.kubernetes.io/master", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:            name,
			Image:           image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			// Brackets around the address are valid for both IPv4 and IPv6.
			Args:  append(command, "--namespace=$(POD_NAMESPACE)", fmt.Sprintf("--listen=[$(POD_IP)]:%d", operatorPort)),
			Env:   commonEnv(name),
			Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: operatorPort, Protocol: corev1.ProtocolTCP}},
			// An operator that waits for the lock is also healthy and ready. Otherwise a rolling update would never
			// delete the pod that holds the lock.
			ReadinessProbe: operatorProbe(5),
			LivenessProbe:  operatorProbe(10),
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("10m"),
					corev1.ResourceMemory: resource.MustParse("64Mi"),
				},
				// Memory grows with the SharedVolumes and pods that tenants create. If a tenant manages to exhaust
				// it, the operator must be killed, not other processes on its node.
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				ReadOnlyRootFilesystem:   new(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: "serving-cert", MountPath: ServingCertFolder, ReadOnly: true}},
		}},
		// The operator also runs without the certificate, but then its metrics cannot be read.
		Volumes: []corev1.Volume{{Name: "serving-cert", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: servingCertSecret(name), Optional: new(true)}}}},
	}
}

// tokenAudience is the audience of tokens that a cloud accepts from an OpenShift cluster.
const tokenAudience = "openshift"

// mountToken gives the operator's container the token with which the operator assumes a role. The kubelet renews the token.
func (a *CloudAccess) mountToken(pod *corev1.PodSpec) {
	const name = "cloud-token"
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: tokenAudience, Path: path.Base(a.TokenFile)}}}}}})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path.Dir(a.TokenFile), ReadOnly: true})
}

// commonEnv returns the environment variables that every operator reads.
func commonEnv(name string) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_IP", "status.podIP"),
		{Name: "OPERATOR_NAME", Value: name},
		{Name: MemoryLimitEnv, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}},
	}
}

// operatorEnv returns the environment variables with the driver's images. An administrator may add the variables of
// Operator.Env.
func (d Driver) operatorEnv() (env []corev1.EnvVar) {
	for _, image := range d.Images {
		env = append(env, corev1.EnvVar{Name: image.Env, Value: image.Default})
	}
	return env
}

func operatorProbe(period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/healthz", Port: intstr.FromInt32(operatorPort), Scheme: corev1.URISchemeHTTPS,
		}},
		InitialDelaySeconds: 1,
		PeriodSeconds:       period,
		TimeoutSeconds:      3,
		FailureThreshold:    5,
	}
}
