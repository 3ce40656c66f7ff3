package drivers

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// operatorPort is where an operator serves its health and its metrics, over HTTPS.
const operatorPort = 8443

// ServingCertFolder is where an operator's pod has the certificate to serve with, once there is one.
const ServingCertFolder = "/var/run/secrets/serving-cert"

// memoryLimit is how much memory an operator's container may take. For 10,000 SharedVolumes it takes a
// quarter, as docs/develop.md tells. A Subscription's config.resources replaces it.
const memoryLimit = "512Mi"

// MemoryLimitEnv is the variable that tells an operator the limit on its memory, in bytes.
const MemoryLimitEnv = "MEMORY_LIMIT"

// driverLabel tells of an operator's Deployment which driver it is for: a cluster may have several
// operators, in any namespaces.
const driverLabel = "berth.dev/csi-driver"

// OperatorDeployment returns the Deployment that runs the driver's operator, with the default images.
// The namespace is left to whoever installs it.
//
// Its name and its pods' label must stay as they are: an update of the operator writes the new
// Deployment over the old one, whose selector cannot change.
func (d Driver) OperatorDeployment() *appsv1.Deployment {
	podLabels := map[string]string{"name": d.Operator.Name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Operator.Name, Labels: labels.Merge(podLabels, labels.Set{driverLabel: d.CSIName})},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: podLabels},
			// The lock keeps two operators from being active together, whatever the strategy. With a
			// rolling update the new pod would still be started only to wait for the old one's end.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: podLabels,
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

func (d Driver) operatorPod() corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName: d.Operator.Name,
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
			RunAsNonRoot:   ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:            d.Operator.Name,
			Image:           d.Operator.Image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			// Brackets around the address do for both IPv4 and IPv6.
			Args:  []string{"driver", d.Name, "--namespace=$(POD_NAMESPACE)", fmt.Sprintf("--listen=[$(POD_IP)]:%d", operatorPort)},
			Env:   d.operatorEnv(),
			Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: operatorPort, Protocol: corev1.ProtocolTCP}},
			// An operator that waits for the lock is healthy and ready as well: nothing waits for it.
			ReadinessProbe: operatorProbe(5),
			LivenessProbe:  operatorProbe(10),
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("10m"),
					corev1.ResourceMemory: resource.MustParse("64Mi"),
				},
				// What others write about SharedVolumes and pods takes memory. If somebody finds a way to make it
				// too much, the operator is to end for it, and not what else is on its node.
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false),
				ReadOnlyRootFilesystem:   ptr.To(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: "serving-cert", MountPath: ServingCertFolder, ReadOnly: true}},
		}},
		// The operator works without: only its metrics cannot be read then.
		Volumes: []corev1.Volume{{Name: "serving-cert", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: d.servingCertSecret(), Optional: ptr.To(true)}}}},
	}
}

// operatorEnv are the variables that an operator reads, but for those of Operator.Env, which an
// administrator adds.
func (d Driver) operatorEnv() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	env := []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_IP", "status.podIP"),
		{Name: "OPERATOR_NAME", Value: d.Operator.Name},
		{Name: MemoryLimitEnv, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}},
	}
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
