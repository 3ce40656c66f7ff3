package drivers_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/berth-csi/berth/drivers"
)

// withoutMetrics are the images of sidecars that serve only their health over HTTP.
var withoutMetrics = []string{
	imageOf("NODE_DRIVER_REGISTRAR_IMAGE"), // node-driver-registrar, as of version 2.15
}

// listener is an address that a container listens on.
type listener struct {
	host, port string
	// encrypted says whether the listener authenticates its clients.
	encrypted bool
}

var listenFlag = regexp.MustCompile(`^--(http-endpoint|metrics-address|secure-listen-address)=(.*):([0-9]+)$`)

func listeners(c corev1.Container) []listener {
	var found []listener
	for _, arg := range c.Args {
		if flag := listenFlag.FindStringSubmatch(arg); flag != nil {
			found = append(found, listener{host: flag[2], port: flag[3], encrypted: flag[1] == "secure-listen-address"})
		}
	}
	return found
}

// TestMetricsAreServed: plain HTTP is reachable only from the same node, and the cluster's Prometheus can read the
// metrics of each container through a proxy that authorizes its clients.
func TestMetricsAreServed(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, w := range workloads(t, manifests) {
			for _, c := range w.containers() {
				for _, l := range listeners(c) {
					if l.encrypted {
						continue
					}
					assert.Equalf(t, "127.0.0.1", l.host, "%s: where container %s listens without encryption", w.file, c.Name)
					if slices.Contains(withoutMetrics, c.Image) {
						continue
					}
					assert.NoErrorf(t, scraped(t, w, manifests, "http://127.0.0.1:"+l.port+"/"), "%s: nobody can read the metrics of container %s", w.file, c.Name)
				}
			}
		}
	})
}

// scraped follows the path from a container's metrics to the cluster's Prometheus. The error says where it breaks.
func scraped(t *testing.T, w workload, manifests []drivers.Manifest, upstream string) error {
	i := slices.IndexFunc(w.containers(), func(c corev1.Container) bool {
		return c.Image == imageOf("KUBE_RBAC_PROXY_IMAGE") && slices.Contains(c.Args, "--upstream="+upstream)
	})
	if i < 0 {
		return fmt.Errorf("no proxy leads to %s", upstream)
	}
	proxy := w.containers()[i]
	for _, arg := range []string{"--allow-paths=/metrics", "--tls-cipher-suites=${TLS_CIPHER_SUITES}", "--tls-min-version=${TLS_MIN_VERSION}"} {
		if !slices.Contains(proxy.Args, arg) {
			return fmt.Errorf("container %s lacks the argument %s", proxy.Name, arg)
		}
	}
	if len(proxy.Ports) != 1 || len(listeners(proxy)) != 1 || fmt.Sprint(proxy.Ports[0].ContainerPort) != listeners(proxy)[0].port {
		return fmt.Errorf("container %s listens on %v and names the ports %v; want one, the same", proxy.Name, listeners(proxy), proxy.Ports)
	}
	if !mayReview(t, manifests, w.pod.Spec.ServiceAccountName) {
		return fmt.Errorf("the service account %s may not create TokenReviews and SubjectAccessReviews", w.pod.Spec.ServiceAccountName)
	}
	service, port := serviceOf(t, manifests, w, proxy.Ports[0].Name)
	if port.Name == "" {
		return fmt.Errorf("no Service leads to port %s of container %s", proxy.Ports[0].Name, proxy.Name)
	}
	if port.Port != proxy.Ports[0].ContainerPort {
		return fmt.Errorf("port %s of Service %s is %d, but %d in the pod", port.Name, service.Name, port.Port, proxy.Ports[0].ContainerPort)
	}
	if secret := service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]; !servesWith(w, proxy, secret) {
		return fmt.Errorf("container %s does not serve with the certificate that Service %s asks for, in the Secret %q", proxy.Name, service.Name, secret)
	}
	return monitored(t, manifests, service, port.Name)
}

// servesWith reports whether a proxy uses the certificate and key of a Secret.
func servesWith(w workload, proxy corev1.Container, secret string) bool {
	for _, mount := range proxy.VolumeMounts {
		if slices.ContainsFunc(w.pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == mount.Name && v.Secret != nil && v.Secret.SecretName == secret
		}) {
			return slices.Contains(proxy.Args, "--tls-cert-file="+mount.MountPath+"/tls.crt") &&
				slices.Contains(proxy.Args, "--tls-private-key-file="+mount.MountPath+"/tls.key")
		}
	}
	return false
}

// serviceOf returns the Service with a port of a workload's pods, and that port.
func serviceOf(t *testing.T, manifests []drivers.Manifest, w workload, target string) (corev1.Service, corev1.ServicePort) {
	for _, m := range drivers.OfKind(manifests, "Service") {
		service := as[corev1.Service](t, m)
		for _, port := range service.Spec.Ports {
			if maps.Equal(service.Spec.Selector, w.selector.MatchLabels) && port.TargetPort.String() == target {
				return service, port
			}
		}
	}
	return corev1.Service{}, corev1.ServicePort{}
}

// monitored returns an error if Prometheus does not scrape a port of a Service correctly.
func monitored(t *testing.T, manifests []drivers.Manifest, service corev1.Service, port string) error {
	for _, m := range drivers.OfKind(manifests, "ServiceMonitor") {
		monitor := read[serviceMonitor](t, m)
		for _, e := range monitor.Spec.Endpoints {
			if !maps.Equal(monitor.Spec.Selector.MatchLabels, service.Labels) || e.Port != port {
				continue
			}
			host := service.Name + "." + service.Namespace + ".svc"
			if e.Path != "/metrics" || e.Scheme != "https" || e.TLSConfig.InsecureSkipVerify || e.TLSConfig.ServerName != host {
				return fmt.Errorf("%s: port %s is scraped as %+v; want /metrics by https, with the certificate of %s", m.File, port, e, host)
			}
			return nil
		}
	}
	return fmt.Errorf("no ServiceMonitor scrapes port %s of Service %s", port, service.Name)
}

// mayReview reports whether a service account may create TokenReviews and SubjectAccessReviews.
func mayReview(t *testing.T, manifests []drivers.Manifest, account string) bool {
	for _, b := range drivers.OfKind(manifests, "ClusterRoleBinding") {
		binding := as[rbacv1.ClusterRoleBinding](t, b)
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == account && s.Namespace == namespace }) {
			continue
		}
		for _, r := range drivers.OfKind(manifests, "ClusterRole") {
			role := as[rbacv1.ClusterRole](t, r)
			if role.Name == binding.RoleRef.Name && creates(role.Rules, "tokenreviews") && creates(role.Rules, "subjectaccessreviews") {
				return true
			}
		}
	}
	return false
}

func creates(rules []rbacv1.PolicyRule, resource string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, "create")
	})
}
