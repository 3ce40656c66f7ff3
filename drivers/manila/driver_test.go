package manila

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/openstack"
)

// Tests that apply to every driver are in package drivers.

// TestNames: these objects keep the names, and their pods the labels, that earlier operators gave them, so that they
// are updated in place.
func TestNames(t *testing.T) {
	manifests, err := Driver.Manifests(drivers.Values{Namespace: Driver.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{} // selectors, by kind, namespace and name
	for _, m := range manifests {
		selector, _, _ := unstructured.NestedStringMap(m.Object.Object, "spec", "selector", "matchLabels")
		got[strings.Join([]string{m.Object.GetKind(), m.Object.GetNamespace(), m.Object.GetName()}, " ")] = selector["app"] + " " + selector["component"]
	}
	for name, selector := range map[string]string{
		"Namespace  openshift-manila-csi-driver":                                                    " ",
		"Secret openshift-manila-csi-driver csi-manila-secrets":                                     " ",
		"VolumeSnapshotClass  csi-manila-standard":                                                  " ",
		"CSIDriver  manila.csi.openstack.org":                                                       " ",
		"Deployment openshift-manila-csi-driver openstack-manila-csi-controllerplugin":              "openstack-manila-csi controllerplugin",
		"DaemonSet openshift-manila-csi-driver openstack-manila-csi-nodeplugin":                     "openstack-manila-csi nodeplugin",
		"DaemonSet openshift-manila-csi-driver csi-nodeplugin-nfsplugin":                            "openstack-manila-csi nfs-nodeplugin",
		"ServiceAccount openshift-manila-csi-driver manila-csi-driver-controller-sa":                " ",
		"ServiceAccount openshift-manila-csi-driver manila-csi-driver-node-sa":                      " ",
		"ConfigMap openshift-manila-csi-driver manila-csi-driver-trusted-ca-bundle":                 " ",
		"CredentialsRequest openshift-cloud-credential-operator manila-csi-drivers":                 " ",
		"PodDisruptionBudget openshift-manila-csi-driver openstack-manila-csi-controllerplugin-pdb": "openstack-manila-csi controllerplugin",
	} {
		if found, ok := got[name]; !ok || found != selector {
			t.Errorf("%s: selector %q (found: %v), want %q", name, found, ok, selector)
		}
	}
}

// TestKeys: new pods understand the keys that OpenShift 4.5's operator wrote, with the CA at the same path, and the Secret has none of
// them any more.
func TestKeys(t *testing.T) {
	manifests, err := Driver.Manifests(drivers.Values{Namespace: Driver.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		t.Fatal(err)
	}
	const file = "cloud-provider-ca-bundle.pem"
	for _, retired := range Driver.History.Keys {
		secrets := drivers.Named(manifests, "Secret", retired.Secret)
		if len(secrets) != 1 {
			t.Fatalf("there are %d Secrets %s, want one", len(secrets), retired.Secret)
		}
		data, _, _ := unstructured.NestedStringMap(secrets[0].Object.Object, "data")
		for _, key := range retired.Keys {
			if data[key] != "" {
				t.Errorf("key %s is retired, and the Secret has it", key)
			}
		}
	}
	found := 0
	for _, m := range manifests {
		volumes, _, _ := unstructured.NestedSlice(m.Object.Object, "spec", "template", "spec", "volumes")
		containers, _, _ := unstructured.NestedSlice(m.Object.Object, "spec", "template", "spec", "containers")
		for _, volume := range volumes {
			items, _, _ := unstructured.NestedSlice(volume.(map[string]any), "secret", "items")
			if !slices.ContainsFunc(items, func(item any) bool { return item.(map[string]any)["path"] == file }) {
				continue
			}
			for _, container := range containers {
				mounts, _, _ := unstructured.NestedSlice(container.(map[string]any), "volumeMounts")
				for _, mount := range mounts {
					if m := mount.(map[string]any); m["name"] == volume.(map[string]any)["name"] && m["mountPath"] == "/usr/share/pki/ca-trust-source" {
						found++
					}
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%d containers have the CA where os-certAuthorityPath says, want those of the controller and of the node", found)
	}
}

// cloudOf returns what the cluster knows of a cloud.
func cloudOf(cloud *openstack.Cloud) drivers.Cloud {
	return drivers.Cloud{Namespace: "harbour", Credentials: map[string][]byte{"clouds.yaml": cloud.CloudsYAML()}}
}

// TestClasses: each share type has its class, with the name and parameters that volumes of earlier operators have.
func TestClasses(t *testing.T) {
	cloud := openstack.Start(t, "Fast_SSD", "default", "fast-ssd", "not a name")
	found, leftOut, err := classes(t.Context(), cloudOf(cloud))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		`Share type "fast-ssd" gets no StorageClass: csi-manila-fast-ssd is that of share type "Fast_SSD". ` +
			`Rename it in Manila, or make a StorageClass by hand: like one of the others, but with the parameter type: "fast-ssd".`,
		`Share type "not a name" gets no StorageClass: "csi-manila-not a name" cannot be the name of one: a lowercase RFC 1123 subdomain must consist of ` +
			`lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for ` +
			`validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'). ` +
			`Rename it in Manila, or make a StorageClass by hand: like one of the others, but with the parameter type: "not a name".`,
	}, leftOut); diff != "" {
		t.Errorf("share types without a class (-want +got):\n%s", diff)
	}
	types := map[string]string{}
	for _, class := range found {
		types[class.Name] = class.Parameters["type"]
	}
	// If two types need the same name, the first gets it.
	if diff := cmp.Diff(map[string]string{"csi-manila-default": "default", "csi-manila-fast-ssd": "Fast_SSD"}, types); diff != "" {
		t.Errorf("share types of classes (-want +got):\n%s", diff)
	}
	want := map[string]string{"type": "Fast_SSD"}
	for _, step := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		want["csi.storage.k8s.io/"+step+"-secret-name"], want["csi.storage.k8s.io/"+step+"-secret-namespace"] = "csi-manila-secrets", "harbour"
	}
	class := found[slices.IndexFunc(found, func(c storagev1.StorageClass) bool { return c.Name == "csi-manila-fast-ssd" })]
	if diff := cmp.Diff(want, class.Parameters); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	if class.Provisioner != Driver.CSIName || *class.ReclaimPolicy != "Delete" || *class.VolumeBindingMode != "Immediate" || !*class.AllowVolumeExpansion {
		t.Errorf("class %+v", class)
	}
}

func TestNoShareTypesIsNoError(t *testing.T) {
	found, leftOut, err := classes(t.Context(), cloudOf(openstack.Start(t)))
	if err != nil || len(found) > 0 || len(leftOut) > 0 {
		t.Errorf("classes %v, without one %q, error %v; want none", found, leftOut, err)
	}
}

// TestAuthorities: the CA of the cloud is in its configuration or in the credentials, and the configuration counts. Without one, the
// cluster's authorities are trusted.
func TestAuthorities(t *testing.T) {
	cloud, other := openstack.StartWith(t, openstack.Options{TLS: true, ShareTypes: []string{"default"}}), openstack.StartWith(t, openstack.Options{TLS: true})
	for name, tc := range map[string]struct {
		config, credentials, trusted []byte
		fails                        bool
	}{
		"in the configuration":                          {config: cloud.CA()},
		"in the credentials":                            {credentials: cloud.CA()},
		"in both":                                       {config: cloud.CA(), credentials: cloud.CA()},
		"in the configuration, and an older one":        {config: cloud.CA(), credentials: other.CA()},
		"in the credentials, but not where it counts":   {config: other.CA(), credentials: cloud.CA(), fails: true},
		"among those that the cluster trusts":           {trusted: cloud.CA()},
		"where it does not count, if the cloud has one": {config: other.CA(), trusted: cloud.CA(), fails: true},
		"nowhere": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			known := cloudOf(cloud)
			known.CABundle, known.Credentials["cacert"], known.TrustedCABundle = string(tc.config), tc.credentials, string(tc.trusted)
			found, _, err := classes(t.Context(), known)
			if tc.fails && (err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority")) {
				t.Errorf("classes %v, error %v, want one about the authority", found, err)
			}
			if !tc.fails && (err != nil || len(found) != 1) {
				t.Errorf("classes %v, error %v, want one class", found, err)
			}
		})
	}
}

// TestMountedCA: pods mount the CA bundle of the cloud's configuration if there is one, and that of the credentials otherwise.
func TestMountedCA(t *testing.T) {
	for volume, config := range map[string]map[string]string{credentialsCA: nil, configCA: {drivers.CABundleKey: "bundle"}} {
		container := corev1.Container{Name: "csi-driver", VolumeMounts: []corev1.VolumeMount{
			{Name: credentialsCA, MountPath: "/a"}, {Name: "cloud", MountPath: "/b"}, {Name: credentialsCA, MountPath: "/c"},
		}}
		pod := corev1.PodSpec{Containers: []corev1.Container{container}}
		Driver.Configure(&pod, drivers.Cluster{CloudConfig: config})
		want := []corev1.VolumeMount{{Name: volume, MountPath: "/a"}, {Name: "cloud", MountPath: "/b"}, {Name: volume, MountPath: "/c"}}
		if diff := cmp.Diff(want, pod.Containers[0].VolumeMounts); diff != "" {
			t.Errorf("with the configuration %v (-want +got):\n%s", config, diff)
		}
	}
}

// TestUnreachableBackend: every failure is reported as an error with its cause.
func TestUnreachableBackend(t *testing.T) {
	for name, test := range map[string]struct {
		manila  openstack.State
		change  func(*openstack.Cloud, *drivers.Cloud)
		want    string
		timeout time.Duration
	}{
		"down":             {manila: openstack.Down, want: "asking Manila at http://127.0.0.1:"},
		"hung":             {manila: openstack.Hung, want: "context deadline exceeded", timeout: 200 * time.Millisecond},
		"forbidden":        {manila: openstack.Forbidden, want: "Policy doesn't allow"},
		"no Manila at all": {manila: openstack.Absent, want: "looking for Manila in Keystone's catalog"},
		"wrong password": {want: "logging in to Keystone at http://127.0.0.1:", change: func(c *openstack.Cloud, known *drivers.Cloud) {
			known.Credentials["clouds.yaml"] = c.WrongCloudsYAML()
		}},
		"empty Secret": {want: "the Secret manila-cloud-credentials has no key clouds.yaml", change: func(_ *openstack.Cloud, known *drivers.Cloud) { clear(known.Credentials) }},
		"no YAML": {want: "the Secret manila-cloud-credentials, key clouds.yaml: ", change: func(_ *openstack.Cloud, known *drivers.Cloud) {
			known.Credentials["clouds.yaml"] = []byte("\tclouds")
		}},
		"another cloud": {want: `cloud "openstack" not found`, change: func(_ *openstack.Cloud, known *drivers.Cloud) {
			known.Credentials["clouds.yaml"] = []byte("clouds: {elsewhere: {}}")
		}},
		"a bad certificate": {want: "key cacert: holds no certificate", change: func(_ *openstack.Cloud, known *drivers.Cloud) {
			known.Credentials["cacert"] = []byte("nothing")
		}},
		"a bad certificate in the cloud's configuration": {want: "ConfigMap openshift-config-managed/kube-cloud-config, key ca-bundle.pem: found no certificate", change: func(_ *openstack.Cloud, known *drivers.Cloud) {
			known.CABundle = "nothing"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := openstack.Start(t, "default")
			if test.manila != "" {
				cloud.SetManila(test.manila)
			}
			known := cloudOf(cloud)
			if test.change != nil {
				test.change(cloud, &known)
			}
			ctx := t.Context()
			if test.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.timeout)
				defer cancel()
			}
			found, _, err := classes(ctx, known)
			if err == nil || !strings.Contains(err.Error(), test.want) || found != nil {
				t.Errorf("classes %v, error %v; want none and an error with %q", found, err, test.want)
			}
		})
	}
}
