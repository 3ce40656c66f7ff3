package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// workloads are the driver's workloads in the cluster.
type workloads struct {
	controller *appsv1.Deployment
	node       *appsv1.DaemonSet
}

// waitForWorkloads waits until check accepts the driver's workloads.
func (env *testEnv) waitForWorkloads(what string, check func(workloads) error) workloads {
	env.t.Helper()
	found := workloads{}
	cluster.Eventually(env.t, limit, what, func(ctx context.Context) error {
		found = workloads{&appsv1.Deployment{}, &appsv1.DaemonSet{}}
		for name, object := range map[string]client.Object{"efs-csi-controller": found.controller, "efs-csi-node": found.node} {
			if err := env.Client().Get(ctx, client.ObjectKey{Namespace: env.home, Name: name}, object); err != nil {
				return err
			}
		}
		return check(found)
	})
	return found
}

// onBoth applies a check to the driver's own container, in the controller and on the nodes.
func (l workloads) onBoth(check func(corev1.PodTemplateSpec, corev1.Container) error) error {
	return errors.Join(
		check(l.controller.Spec.Template, container(l.controller.Spec.Template, "csi-driver")),
		check(l.node.Spec.Template, container(l.node.Spec.Template, "efs-plugin")))
}

func container(pod corev1.PodTemplateSpec, name string) corev1.Container {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	return pod.Spec.Containers[i]
}

// argument fails unless a container has an argument, and no other one for the same flag.
func argument(c corev1.Container, want string) error {
	flag, _, _ := strings.Cut(want, "=")
	var found []string
	for _, arg := range c.Args {
		if name, _, _ := strings.Cut(arg, "="); name == flag {
			found = append(found, arg)
		}
	}
	if !slices.Equal(found, []string{want}) {
		return fmt.Errorf("container %s has %q, want just %s", c.Name, found, want)
	}
	return nil
}

// marks returns the annotations of a pod with the hashes of the Secrets that it mounts.
func marks(pod corev1.PodTemplateSpec) map[string]string {
	found := map[string]string{}
	for key, value := range pod.Annotations {
		if strings.HasPrefix(key, "berth.dev/secret-") {
			found[strings.TrimPrefix(key, "berth.dev/secret-")] = value
		}
	}
	return found
}

// in returns the environment for a subtest.
func (env *testEnv) in(t *testing.T) *testEnv {
	sub := *env
	sub.t = t
	return &sub
}

// change changes an object of the cluster, its status too.
func change[T client.Object](env *testEnv, object T, apply func(T)) {
	env.t.Helper()
	cluster.Eventually(env.t, limit, fmt.Sprintf("a change of %T %s", object, object.GetName()), func(ctx context.Context) error {
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		apply(object)
		status := object.DeepCopyObject().(client.Object)
		if err := env.Client().Update(ctx, object); err != nil {
			return err
		}
		status.SetResourceVersion(object.GetResourceVersion())
		if err := env.Client().Status().Update(ctx, status); !apierrors.IsNotFound(err) {
			return err
		}
		return nil // it has no status subresource
	})
}

// during changes an object until the test ends.
func during[T any, P interface {
	*T
	client.Object
}](env *testEnv, object P, apply func(P)) {
	env.t.Helper()
	require.NoError(env.t, env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(object), object))
	before := object.DeepCopyObject().(P)
	env.t.Cleanup(func() {
		change(env, object, func(object P) {
			now := object.GetResourceVersion()
			*object = *before
			object.SetResourceVersion(now)
		})
	})
	change(env, object, apply)
}

// selectorOf returns the labels with which a workload selects its pods.
func selectorOf(object client.Object) map[string]string {
	labels, _, _ := unstructured.NestedStringMap(object.(*unstructured.Unstructured).Object, "spec", "selector", "matchLabels")
	return labels
}
