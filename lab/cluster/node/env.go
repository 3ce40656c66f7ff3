package node

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// objects are the ConfigMaps and Secrets for environment variables and volumes.
type objects struct {
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
}

// configMap and secret return an object's data. A missing optional object is empty.
func (o objects) configMap(namespace, name string, optional *bool) (map[string][]byte, error) {
	found, err := o.configMaps.ConfigMaps(namespace).Get(name)
	if err != nil {
		return nil, ignoreMissing(err, optional)
	}
	data := maps.Clone(found.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range found.Data {
		data[key] = []byte(value)
	}
	return data, nil
}

func (o objects) secret(namespace, name string, optional *bool) (map[string][]byte, error) {
	found, err := o.secrets.Secrets(namespace).Get(name)
	if err != nil {
		return nil, ignoreMissing(err, optional)
	}
	return found.Data, nil
}

func ignoreMissing(err error, optional *bool) error {
	if isTrue(optional) && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func isTrue(b *bool) bool { return b != nil && *b }

// environment returns the environment of the container's program: the variables of every container, then envFrom,
// then env. Later ones override earlier ones. The pod's status must have its addresses.
func environment(pod *corev1.Pod, container *corev1.Container, base map[string]string, from objects) (map[string]string, error) {
	vars := maps.Clone(base)
	for i, source := range container.EnvFrom {
		values, err := envFrom(pod.Namespace, source, from)
		if err != nil {
			return nil, fmt.Errorf("container %s: envFrom[%d]: %w", container.Name, i, err)
		}
		for key, value := range values {
			vars[source.Prefix+key] = string(value)
		}
	}
	for _, env := range container.Env {
		value, set, err := envValue(pod, container, env, vars, from)
		if err != nil {
			return nil, fmt.Errorf("container %s: env %s: %w", container.Name, env.Name, err)
		}
		if set {
			vars[env.Name] = value
		}
	}
	return vars, nil
}

func envFrom(namespace string, source corev1.EnvFromSource, from objects) (map[string][]byte, error) {
	switch {
	case source.ConfigMapRef != nil:
		return from.configMap(namespace, source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
	case source.SecretRef != nil:
		return from.secret(namespace, source.SecretRef.Name, source.SecretRef.Optional)
	}
	return nil, nil
}

// envValue also reports whether the variable is set: with a missing optional key it is not.
func envValue(pod *corev1.Pod, container *corev1.Container, env corev1.EnvVar, vars map[string]string, from objects) (string, bool, error) {
	source := env.ValueFrom
	switch {
	case source == nil:
		return expand(env.Value, vars), true, nil
	case source.FieldRef != nil:
		value, err := fieldValue(pod, source.FieldRef.FieldPath)
		return value, true, err
	case source.ResourceFieldRef != nil:
		value, err := resourceValue(pod, container, source.ResourceFieldRef)
		return value, true, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		data, err := from.configMap(pod.Namespace, ref.Name, ref.Optional)
		return keyOf(data, err, "ConfigMap", ref.Name, ref.Key, ref.Optional)
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		data, err := from.secret(pod.Namespace, ref.Name, ref.Optional)
		return keyOf(data, err, "Secret", ref.Name, ref.Key, ref.Optional)
	}
	return "", false, fmt.Errorf("the process node knows fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef, and valueFrom has none of them")
}

func keyOf(data map[string][]byte, err error, kind, name, key string, optional *bool) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	value, found := data[key]
	if !found && !isTrue(optional) {
		return "", false, fmt.Errorf("%s %s has no key %s", kind, name, key)
	}
	return string(value), found, nil
}

// expand replaces each $(NAME) by the variable's value. "$$" stands for one dollar sign, and a
// reference to an unknown variable stays as it is: these are the rules of container.command.
func expand(s string, vars map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := vars[name]
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteString("$")
			s = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			out.WriteString(value)
			s = rest
		default:
			out.WriteString("$")
			s = after
		}
	}
}

// podFields are the fields of the downward API other than single labels and annotations.
var podFields = map[string]func(*corev1.Pod) string{
	"metadata.name":           func(p *corev1.Pod) string { return p.Name },
	"metadata.namespace":      func(p *corev1.Pod) string { return p.Namespace },
	"metadata.uid":            func(p *corev1.Pod) string { return string(p.UID) },
	"metadata.labels":         func(p *corev1.Pod) string { return quotedLines(p.Labels) },
	"metadata.annotations":    func(p *corev1.Pod) string { return quotedLines(p.Annotations) },
	"spec.nodeName":           func(p *corev1.Pod) string { return p.Spec.NodeName },
	"spec.serviceAccountName": func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
	"status.hostIP":           func(p *corev1.Pod) string { return p.Status.HostIP },
	"status.hostIPs":          func(p *corev1.Pod) string { return p.Status.HostIP },
	"status.podIP":            func(p *corev1.Pod) string { return p.Status.PodIP },
	"status.podIPs":           func(p *corev1.Pod) string { return p.Status.PodIP },
}

// fieldValue returns a field as the downward API writes it.
func fieldValue(pod *corev1.Pod, path string) (string, error) {
	if field, found := podFields[path]; found {
		return field(pod), nil
	}
	for prefix, values := range map[string]map[string]string{"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations} {
		if key, found := strings.CutPrefix(path, prefix+"['"); found && strings.HasSuffix(key, "']") {
			return values[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("fieldPath %q is none of %s, metadata.labels['<key>'] and metadata.annotations['<key>']",
		path, strings.Join(slices.Sorted(maps.Keys(podFields)), ", "))
}

func quotedLines(values map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(lines, "\n")
}

// resourceValue returns a container's limit or request in units of the divisor, rounded up. A missing limit means the
// node's capacity, as nothing else limits the container.
func resourceValue(pod *corev1.Pod, container *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	for _, other := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if other.Name == ref.ContainerName {
			container = &other
		}
	}
	if container == nil {
		return "", fmt.Errorf("resourceFieldRef names container %q, which the pod does not have", ref.ContainerName)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var amounts corev1.ResourceList
	switch kind {
	case "limits":
		amounts = maps.Clone(capacity)
		maps.Copy(amounts, container.Resources.Limits)
	case "requests":
		amounts = container.Resources.Requests
	default:
		return "", fmt.Errorf("resource %q does not start with \"limits.\" or \"requests.\"", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount := amounts[corev1.ResourceName(name)]
	return strconv.FormatInt((amount.MilliValue()+divisor.MilliValue()-1)/divisor.MilliValue(), 10), nil
}

// baseEnvironment returns the environment of every container's program: the API server's address, and variables that images usually set.
// HOME is the container's own folder.
func baseEnvironment(pod *corev1.Pod, apiHost, apiPort string) map[string]string {
	return map[string]string{
		"PATH":                          os.Getenv("PATH"),
		"HOME":                          "/tmp",
		"HOSTNAME":                      pod.Name,
		"KUBERNETES_SERVICE_HOST":       apiHost,
		"KUBERNETES_SERVICE_PORT":       apiPort,
		"KUBERNETES_SERVICE_PORT_HTTPS": apiPort,
	}
}

// assignments returns variables in the form that a process takes.
func assignments(vars map[string]string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}
