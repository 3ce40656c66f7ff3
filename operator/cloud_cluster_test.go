package operator_test

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/lab/cluster"
)

// TestCloudReachesTheDriver: the driver gets the endpoints of the cloud and the CA to trust, and is restarted when that
// changes.
func TestCloudReachesTheDriver(t *testing.T) {
	t.Parallel()
	driver := ebsDriver(t)
	env := newTestEnvWith(t, driver)
	var replaced int64
	controller := func(what string, check func(pod corev1.PodTemplateSpec, env map[string]string) error) {
		t.Helper()
		deployment := &appsv1.Deployment{}
		cluster.Eventually(t, limit, what, func(ctx context.Context) error {
			if err := env.Client().Get(ctx, client.ObjectKey{Namespace: env.home, Name: "aws-ebs-csi-driver-controller"}, deployment); err != nil {
				return err
			}
			variables := map[string]string{}
			for _, v := range container(deployment.Spec.Template, "csi-driver").Env {
				variables[v.Name] = v.Value
			}
			return check(deployment.Spec.Template, variables)
		})
		replaced = deployment.Generation
	}
	variable := func(got map[string]string, name, want string) error {
		if got[name] != want {
			return fmt.Errorf("%s is %q, want %q", name, got[name], want)
		}
		return nil
	}
	bundle := func(comment string) string {
		server := httptest.NewUnstartedServer(nil)
		server.StartTLS()
		defer server.Close()
		return comment + "\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	}
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config-managed", Name: "kube-cloud-config"},
		Data: map[string]string{"ca-bundle.pem": bundle("first")}}
	env.create(source)
	t.Cleanup(func() {
		assert.NoError(t, client.IgnoreNotFound(env.Client().Delete(context.Background(), source)))
	})
	env.installDriver()

	const annotation = "berth.dev/cloud-config"
	var first string
	controller("the region and the bundle", func(pod corev1.PodTemplateSpec, got map[string]string) error {
		first = pod.Annotations[annotation]
		return errors.Join(variable(got, "AWS_REGION", "us-east-1"), variable(got, "AWS_EC2_ENDPOINT", ""),
			variable(got, "AWS_CA_BUNDLE", "/var/run/cloud-ca/ca-bundle.pem"))
	})
	if replaced != 1 || first == "" {
		t.Errorf("the Deployment has generation %d and hash %q of the bundle, want the first and a hash: its pods were replaced at once", replaced, first)
	}
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: driver.CloudConfig.ConfigMap}}
	if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil || copied.Data["ca-bundle.pem"] != source.Data["ca-bundle.pem"] {
		t.Errorf("the driver's copy of the bundle is %q, error %v; want %q", copied.Data, err, source.Data)
	}

	infrastructure := &configv1.Infrastructure{ObjectMeta: singleton}
	during(env, infrastructure, func(i *configv1.Infrastructure) {
		i.Status.PlatformStatus.AWS.ServiceEndpoints = []configv1.AWSServiceEndpoint{{Name: "ec2", URL: "https://ec2.example.com"}, {Name: "sts", URL: "https://sts.example.com"}}
	})
	controller("the endpoints", func(_ corev1.PodTemplateSpec, got map[string]string) error {
		return errors.Join(variable(got, "AWS_EC2_ENDPOINT", "https://ec2.example.com"), variable(got, "AWS_ENDPOINT_URL_STS", "https://sts.example.com"))
	})

	change(env, source, func(c *corev1.ConfigMap) { c.Data["ca-bundle.pem"] = bundle("second") })
	var second string
	controller("the second bundle", func(pod corev1.PodTemplateSpec, _ map[string]string) error {
		if second = pod.Annotations[annotation]; second == first {
			return errors.New("the pods have the hash of the first one")
		}
		return nil
	})

	// With a bundle that has no certificate, the driver would exit.
	change(env, source, func(c *corev1.ConfigMap) { c.Data["ca-bundle.pem"] = "nothing" })
	refused := driver.ConditionPrefix + "OperatorDegraded"
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{refused: operatorv1.ConditionTrue, "Degraded": operatorv1.ConditionTrue})
	assert.Containsf(t, condition(custom, refused).Message, "openshift-config-managed/kube-cloud-config", "condition %s says", refused)
	controller("the second bundle still", func(pod corev1.PodTemplateSpec, _ map[string]string) error {
		assert.Equal(t, second, pod.Annotations[annotation], "the driver's pods have changed with a bundle that has no certificate")
		return nil
	})

	require.NoError(t, env.Client().Delete(t.Context(), source))
	controller("no bundle", func(pod corev1.PodTemplateSpec, got map[string]string) error {
		if _, set := got["AWS_CA_BUNDLE"]; set || pod.Annotations[annotation] != "" {
			return fmt.Errorf("AWS_CA_BUNDLE is %q, the hash %q", got["AWS_CA_BUNDLE"], pod.Annotations[annotation])
		}
		return nil
	})
	env.waitForConditions(allWell)
}

// TestDriversOwnConfiguration: an administrator's configuration for a driver reaches its pods, and a wrong one does
// not.
func TestDriversOwnConfiguration(t *testing.T) {
	t.Parallel()
	driver := ebsDriver(t)
	const name, key = "tug-config", "level"
	driver.CloudConfig = &drivers.CloudConfig{ConfigMap: driver.CloudConfig.ConfigMap, Source: name, Content: func(cloud, source, _ map[string]string) (map[string]string, error) {
		if source[key] == "wrong" {
			return nil, errors.New("the level is wrong")
		}
		return map[string]string{key: cmp.Or(source[key], cloud[key], "default")}, nil
	}}
	env := newTestEnvWith(t, driver)
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: driver.CloudConfig.ConfigMap}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "aws-ebs-csi-driver-controller"}}
	var hash string // of the content that the pods have
	reached := func(want string) {
		t.Helper()
		before := hash
		cluster.Eventually(t, limit, "the level "+want, func(ctx context.Context) error {
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(copied), copied); err != nil {
				return err
			}
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
				return err
			}
			hash = deployment.Spec.Template.Annotations["berth.dev/cloud-config"]
			if copied.Data[key] != want || hash == before {
				return fmt.Errorf("the driver's ConfigMap has %v, and its pods the hash %q", copied.Data, hash)
			}
			return nil
		})
	}
	env.installDriver()
	reached("default")
	assert.EqualValues(t, 1, deployment.Generation, "the Deployment has generation")

	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.DriverConfigNamespace, Name: name}, Data: map[string]string{key: "low"}}
	env.create(own)
	t.Cleanup(func() {
		assert.NoError(t, client.IgnoreNotFound(env.Client().Delete(context.Background(), own)))
	})
	reached("low")

	change(env, own, func(c *corev1.ConfigMap) { c.Data[key] = "wrong" })
	refused := driver.ConditionPrefix + "OperatorDegraded"
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{refused: operatorv1.ConditionTrue, "Degraded": operatorv1.ConditionTrue})
	assert.Containsf(t, condition(custom, refused).Message, "the level is wrong", "condition %s says", refused)
	if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil || copied.Data[key] != "low" {
		t.Errorf("the driver's ConfigMap has %v, error %v; want the level before", copied.Data, err)
	}

	require.NoError(t, env.Client().Delete(t.Context(), own))
	reached("default")
	env.waitForConditions(allWell)
}

// TestCloudIsAskedOnce: what only the cloud knows is found out before the driver is installed, and never again: not after a restart, and
// not in a cluster where another operator has left a configuration.
func TestCloudIsAskedOnce(t *testing.T) {
	t.Parallel()
	const key = "zones"
	for _, test := range []struct {
		name string
		left map[string]string // by another operator; nil if there was none
		want string
	}{
		{"a cluster of another operator", map[string]string{key: "a"}, "a"},
		{"one that left an empty ConfigMap", map[string]string{}, "none"},
		{"a new cluster", nil, "a,b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			asked, failure, zones := 0, errors.New("the cloud is in maintenance"), "a,b"
			set := func(err error, now string) {
				mu.Lock()
				defer mu.Unlock()
				failure, zones = err, now
			}
			driver := ebsDriver(t)
			driver.CloudConfig = &drivers.CloudConfig{
				ConfigMap: driver.CloudConfig.ConfigMap,
				Content: func(_, _, current map[string]string) (map[string]string, error) {
					return map[string]string{key: cmp.Or(current[key], "none")}, nil
				},
				Discovery: &drivers.Discovery{
					Secret: driver.Secrets[0],
					Needed: func(map[string]string, map[string]string) bool { return true },
				},
			}
			env := newTestEnvWith(t, driver)
			env.own = func() controller.Own {
				return controller.Own{Find: func(_ context.Context, cloud drivers.Cloud, _, _ map[string]string) (map[string]string, error) {
					mu.Lock()
					defer mu.Unlock()
					if asked++; len(cloud.Credentials) == 0 {
						return nil, errors.New("there are no credentials")
					}
					return map[string]string{key: zones}, failure
				}}
			}
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: driver.CloudConfig.ConfigMap}, Data: test.left}
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "aws-ebs-csi-driver-controller"}}
			if test.left != nil {
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.home}}
				require.NoError(t, client.IgnoreAlreadyExists(env.Client().Create(t.Context(), namespace)))
				env.create(config)
				set(nil, "c")
			} else if err := client.IgnoreNotFound(env.Client().Delete(t.Context(), config)); err != nil { // of the test before
				t.Fatal(err)
			}
			env.create(env.customResource())
			if test.left != nil {
				env.annotate(namespaceAnnotation, fmt.Sprintf("%q", env.home))
				env.annotate(namespaceUIDAnnotation, fmt.Sprintf("%q", env.namespaceUID(env.home)))
			}
			stop := env.startOperator()
			if test.left == nil {
				refused := driver.ConditionPrefix + "OperatorDegraded"
				custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{refused: operatorv1.ConditionTrue})
				assert.Containsf(t, condition(custom, refused).Message, "the cloud is in maintenance", "condition %s says", refused)
				if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); !apierrors.IsNotFound(err) {
					t.Errorf("the driver's Deployment: error %v, want none before the cloud was asked", err)
				}
				set(nil, "a,b")
			}
			env.waitForConditions(allWell)
			check := func(when string, wantAsked int) {
				t.Helper()
				if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil || config.Data[key] != test.want {
					t.Errorf("%s: the driver's ConfigMap has %v, error %v; want the zones %s", when, config.Data, err, test.want)
				}
				mu.Lock()
				defer mu.Unlock()
				assert.Equalf(t, wantAsked, asked, "%s: how often the cloud was asked", when)
			}
			mu.Lock()
			before := asked
			mu.Unlock()
			if (before > 0) != (test.left == nil) {
				t.Errorf("the cloud was asked %d times", before)
			}
			check("after the installation", before)
			set(nil, "c")
			stop()
			env.startOperator()
			env.waitUntilObserved()
			check("after a restart", before)
		})
	}
}
