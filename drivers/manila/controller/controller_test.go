package controller

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/lab/openstack"
)

// cloudOf returns the cluster's information about a cloud.
func cloudOf(cloud *openstack.Cloud) drivers.Cloud {
	return drivers.Cloud{Namespace: "harbour", Credentials: map[string][]byte{"clouds.yaml": cloud.CloudsYAML()}}
}

// TestClasses: each share type has its class, with the name and parameters that volumes of earlier operators have.
func TestClasses(t *testing.T) {
	cloud := openstack.Start(t, "Fast_SSD", "default", "fast-ssd", "not a name")
	found, leftOut, err := classes(t.Context(), cloudOf(cloud))
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff([]string{
		`Share type "fast-ssd" gets no StorageClass: csi-manila-fast-ssd belongs to share type "Fast_SSD". ` +
			`Rename it in Manila, or make a StorageClass by hand: like one of the others, but with the parameter type: "fast-ssd".`,
		`Share type "not a name" gets no StorageClass: "csi-manila-not a name" cannot be the name of a StorageClass: a lowercase RFC 1123 subdomain must consist of ` +
			`lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for ` +
			`validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'). ` +
			`Rename it in Manila, or make a StorageClass by hand: like one of the others, but with the parameter type: "not a name".`,
	}, leftOut), "share types without a class (-want +got)")
	types := map[string]string{}
	for _, class := range found {
		types[class.Name] = class.Parameters["type"]
	}
	// If two types need the same name, the first gets it.
	assert.Equal(t, map[string]string{"csi-manila-default": "default", "csi-manila-fast-ssd": "Fast_SSD"}, types, "share types of classes")
	want := map[string]string{"type": "Fast_SSD"}
	for _, step := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		want["csi.storage.k8s.io/"+step+"-secret-name"], want["csi.storage.k8s.io/"+step+"-secret-namespace"] = "csi-manila-secrets", "harbour"
	}
	class := found[slices.IndexFunc(found, func(c storagev1.StorageClass) bool { return c.Name == "csi-manila-fast-ssd" })]
	assert.Empty(t, cmp.Diff(want, class.Parameters), "parameters (-want +got)")
	if class.Provisioner != manila.Driver.CSIName || *class.ReclaimPolicy != "Delete" || *class.VolumeBindingMode != "Immediate" || !*class.AllowVolumeExpansion {
		t.Errorf("class %+v", class)
	}
}

func TestNoShareTypesIsNoError(t *testing.T) {
	found, leftOut, err := classes(t.Context(), cloudOf(openstack.Start(t)))
	if err != nil || len(found) > 0 || len(leftOut) > 0 {
		t.Errorf("classes %v, without one %q, error %v; want none", found, leftOut, err)
	}
}

// TestManyShareTypes: whoever may write the Secret names a Manila with very many share types. Few get a class.
func TestManyShareTypes(t *testing.T) {
	var types []string
	for i := range 1003 {
		types = append(types, fmt.Sprintf("type-%04d", i))
	}
	found, leftOut, err := classes(t.Context(), cloudOf(openstack.Start(t, types...)))
	require.NoError(t, err)
	assert.Len(t, found, 200, "classes")
	assert.Equal(t, []string{`803 share types, such as "type-0200", get no StorageClass: Manila has 1003, and the operator makes classes for the first 200. ` +
		"Check that the Secret manila-cloud-credentials names the right cloud, or make StorageClasses by hand."}, leftOut)
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

// TestNoFilesOfThePod: whoever may write the Secret names files for the TLS connection. The operator reads none of them.
func TestNoFilesOfThePod(t *testing.T) {
	cloud := openstack.Start(t, "default")
	known := cloudOf(cloud)
	var file map[string]map[string]map[string]any
	require.NoError(t, yaml.Unmarshal(known.Credentials["clouds.yaml"], &file))
	for _, path := range []string{"cacert", "cert", "key"} {
		file["clouds"]["openstack"][path] = "/nonexistent/" + path
	}
	var err error
	known.Credentials["clouds.yaml"], err = yaml.Marshal(file)
	require.NoError(t, err)
	if found, _, err := classes(t.Context(), known); err != nil || len(found) != 1 {
		t.Errorf("classes %v, error %v, want one class", found, err)
	}
}

// TestEndlessAnswer: whoever may write the Secret chooses who answers the operator. It stops reading an answer that does not end.
func TestEndlessAnswer(t *testing.T) {
	var sent atomic.Int64
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		part := bytes.Repeat([]byte("a"), 1<<20)
		_, err := w.Write([]byte(`{"token": {"methods": ["`))
		for err == nil && sent.Load() < 8*drivers.MaxAnswer {
			_, err = w.Write(part)
			sent.Add(int64(len(part)))
		}
	}))
	defer keystone.Close()
	known := drivers.Cloud{Credentials: map[string][]byte{"clouds.yaml": []byte("clouds: {openstack: {auth: {auth_url: " + keystone.URL + "/v3, username: u, password: p, project_name: p, user_domain_name: d, project_domain_name: d}}}")}}
	if found, _, err := classes(t.Context(), known); err == nil || found != nil {
		t.Errorf("classes %v, error %v; want none and an error", found, err)
	}
	keystone.Close() // waits until it has sent all that was read
	if n := sent.Load(); n == 0 || n >= 8*drivers.MaxAnswer {
		t.Errorf("Keystone sent %d bytes, want an end soon after %d", n, drivers.MaxAnswer)
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
