package mustgather

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-csi/berth/lab/cluster/crds"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

type object = map[string]any

// collected is a kind of objects that the script reads.
type collected struct {
	group, version, kind string
	namespaced           bool
	// of is the type of the objects. Without one, a CustomResourceDefinition has their fields.
	of any
	// onlyRead says that no file of the archive has its objects: the script reads them to choose what it collects, or collects only names.
	onlyRead bool
}

// kinds are all kinds that the script reads, by their resources. A kind without a row is in no answer of the server, and the test fails.
var kinds = map[string]collected{
	"clusterversions":            {group: "config.openshift.io", version: "v1", kind: "ClusterVersion", of: configv1.ClusterVersion{}},
	"infrastructures":            {group: "config.openshift.io", version: "v1", kind: "Infrastructure", of: configv1.Infrastructure{}},
	"proxies":                    {group: "config.openshift.io", version: "v1", kind: "Proxy", of: configv1.Proxy{}},
	"apiservers":                 {group: "config.openshift.io", version: "v1", kind: "APIServer", of: configv1.APIServer{}},
	"featuregates":               {group: "config.openshift.io", version: "v1", kind: "FeatureGate", of: configv1.FeatureGate{}},
	"clusteroperators":           {group: "config.openshift.io", version: "v1", kind: "ClusterOperator", of: configv1.ClusterOperator{}},
	"cloudcredentials":           {group: "operator.openshift.io", version: "v1", kind: "CloudCredential", of: operatorv1.CloudCredential{}},
	"storages":                   {group: "operator.openshift.io", version: "v1", kind: "Storage", of: operatorv1.Storage{}},
	"clustercsidrivers":          {group: "operator.openshift.io", version: "v1", kind: "ClusterCSIDriver", of: operatorv1.ClusterCSIDriver{}},
	"credentialsrequests":        {group: "cloudcredential.openshift.io", version: "v1", kind: "CredentialsRequest", namespaced: true},
	"securitycontextconstraints": {group: "security.openshift.io", version: "v1", kind: "SecurityContextConstraints", of: securityv1.SecurityContextConstraints{}},

	"catalogsources":            {group: "operators.coreos.com", version: "v1alpha1", kind: "CatalogSource", namespaced: true, of: v1alpha1.CatalogSource{}},
	"subscriptions":             {group: "operators.coreos.com", version: "v1alpha1", kind: "Subscription", namespaced: true, of: v1alpha1.Subscription{}},
	"clusterserviceversions":    {group: "operators.coreos.com", version: "v1alpha1", kind: "ClusterServiceVersion", namespaced: true, of: v1alpha1.ClusterServiceVersion{}},
	"installplans":              {group: "operators.coreos.com", version: "v1alpha1", kind: "InstallPlan", namespaced: true, of: v1alpha1.InstallPlan{}},
	"operatorgroups":            {group: "operators.coreos.com", version: "v1", kind: "OperatorGroup", namespaced: true, of: operatorsv1.OperatorGroup{}},
	"operatorconditions":        {group: "operators.coreos.com", version: "v2", kind: "OperatorCondition", namespaced: true, of: operatorsv2.OperatorCondition{}},
	"clustercatalogs":           {group: "olm.operatorframework.io", version: "v1", kind: "ClusterCatalog"},
	"clusterextensions":         {group: "olm.operatorframework.io", version: "v1", kind: "ClusterExtension"},
	"clusterobjectsets":         {group: "olm.operatorframework.io", version: "v1", kind: "ClusterObjectSet"},
	"clusterextensionrevisions": {group: "olm.operatorframework.io", version: "v1", kind: "ClusterExtensionRevision"},

	"nodes":                  {version: "v1", kind: "Node", of: corev1.Node{}},
	"namespaces":             {version: "v1", kind: "Namespace", of: corev1.Namespace{}},
	"pods":                   {version: "v1", kind: "Pod", namespaced: true, of: corev1.Pod{}},
	"services":               {version: "v1", kind: "Service", namespaced: true, of: corev1.Service{}},
	"serviceaccounts":        {version: "v1", kind: "ServiceAccount", namespaced: true, of: corev1.ServiceAccount{}},
	"events":                 {version: "v1", kind: "Event", namespaced: true, of: corev1.Event{}},
	"secrets":                {version: "v1", kind: "Secret", namespaced: true, of: corev1.Secret{}, onlyRead: true},
	"configmaps":             {version: "v1", kind: "ConfigMap", namespaced: true, of: corev1.ConfigMap{}, onlyRead: true},
	"persistentvolumes":      {version: "v1", kind: "PersistentVolume", of: corev1.PersistentVolume{}},
	"persistentvolumeclaims": {version: "v1", kind: "PersistentVolumeClaim", namespaced: true, of: corev1.PersistentVolumeClaim{}},

	"deployments":          {group: "apps", version: "v1", kind: "Deployment", namespaced: true, of: appsv1.Deployment{}},
	"daemonsets":           {group: "apps", version: "v1", kind: "DaemonSet", namespaced: true, of: appsv1.DaemonSet{}},
	"replicasets":          {group: "apps", version: "v1", kind: "ReplicaSet", namespaced: true, of: appsv1.ReplicaSet{}},
	"poddisruptionbudgets": {group: "policy", version: "v1", kind: "PodDisruptionBudget", namespaced: true, of: policyv1.PodDisruptionBudget{}},
	"clusterroles":         {group: "rbac.authorization.k8s.io", version: "v1", kind: "ClusterRole", of: rbacv1.ClusterRole{}},
	"clusterrolebindings":  {group: "rbac.authorization.k8s.io", version: "v1", kind: "ClusterRoleBinding", of: rbacv1.ClusterRoleBinding{}},
	"roles":                {group: "rbac.authorization.k8s.io", version: "v1", kind: "Role", namespaced: true, of: rbacv1.Role{}},
	"rolebindings":         {group: "rbac.authorization.k8s.io", version: "v1", kind: "RoleBinding", namespaced: true, of: rbacv1.RoleBinding{}},
	"servicemonitors":      {group: "monitoring.coreos.com", version: "v1", kind: "ServiceMonitor", namespaced: true},
	"prometheusrules":      {group: "monitoring.coreos.com", version: "v1", kind: "PrometheusRule", namespaced: true},

	"csidrivers":                  {group: "storage.k8s.io", version: "v1", kind: "CSIDriver", of: storagev1.CSIDriver{}},
	"csinodes":                    {group: "storage.k8s.io", version: "v1", kind: "CSINode", of: storagev1.CSINode{}},
	"storageclasses":              {group: "storage.k8s.io", version: "v1", kind: "StorageClass", of: storagev1.StorageClass{}},
	"volumeattachments":           {group: "storage.k8s.io", version: "v1", kind: "VolumeAttachment", of: storagev1.VolumeAttachment{}},
	"volumeattributesclasses":     {group: "storage.k8s.io", version: "v1", kind: "VolumeAttributesClass", of: storagev1.VolumeAttributesClass{}},
	"csistoragecapacities":        {group: "storage.k8s.io", version: "v1", kind: "CSIStorageCapacity", namespaced: true, of: storagev1.CSIStorageCapacity{}},
	"volumesnapshotclasses":       {group: "snapshot.storage.k8s.io", version: "v1", kind: "VolumeSnapshotClass"},
	"volumesnapshotcontents":      {group: "snapshot.storage.k8s.io", version: "v1", kind: "VolumeSnapshotContent"},
	"volumesnapshots":             {group: "snapshot.storage.k8s.io", version: "v1", kind: "VolumeSnapshot", namespaced: true},
	"volumegroupsnapshotclasses":  {group: "groupsnapshot.storage.k8s.io", version: "v1beta1", kind: "VolumeGroupSnapshotClass"},
	"volumegroupsnapshotcontents": {group: "groupsnapshot.storage.k8s.io", version: "v1beta1", kind: "VolumeGroupSnapshotContent"},
	"volumegroupsnapshots":        {group: "groupsnapshot.storage.k8s.io", version: "v1beta1", kind: "VolumeGroupSnapshot", namespaced: true},

	"customresourcedefinitions": {group: "apiextensions.k8s.io", version: "v1", kind: "CustomResourceDefinition", of: apiextensionsv1.CustomResourceDefinition{}},
	"sharedvolumes":             {group: sharedvolume.GroupVersion.Group, version: sharedvolume.GroupVersion.Version, kind: "SharedVolume", namespaced: true, of: sharedvolume.SharedVolume{}},
}

// filler makes objects that have each field of their types, with a text in each that is one. Each map has an entry, and each list an
// item, whose name says that it is a credential.
type filler struct {
	texts []string
	round int // which text a field has
	kind  string
	// fields counts the texts.
	fields int
}

// credential is the value of what is named so.
const credential = "hunter2-by-name"

func (f *filler) text(path string) string {
	f.fields++
	hash := fnv.New32a()
	fmt.Fprint(hash, f.kind, path)
	return f.texts[(int(hash.Sum32()%1e6)+f.round)%len(f.texts)]
}

const someTime = "2024-01-01T00:00:00Z"

// ofType returns a value of a type.
func (f *filler) ofType(of reflect.Type, path string, around []reflect.Type) any {
	switch of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[time.Time]():
		return someTime
	case reflect.TypeFor[metav1.Duration](), reflect.TypeFor[time.Duration]():
		return "1s"
	case reflect.TypeFor[resource.Quantity]():
		return "1Gi"
	case reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[apiextensionsv1.JSON]():
		return f.text(path)
	case reflect.TypeFor[runtime.RawExtension]():
		return object{"apiVersion": "v1", "kind": "Any", "text": f.text(path), "password": credential}
	case reflect.TypeFor[metav1.FieldsV1]():
		return object{}
	}
	switch of.Kind() {
	case reflect.String:
		return f.text(path)
	case reflect.Bool:
		return true
	case reflect.Pointer:
		return f.ofType(of.Elem(), path, around)
	case reflect.Map:
		if of.Elem().Kind() == reflect.String {
			return object{"k": f.text(path), "password": credential}
		}
		return object{"k": f.ofType(of.Elem(), path, around)}
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return base64.StdEncoding.EncodeToString([]byte(f.text(path)))
		}
		return f.list(f.ofType(of.Elem(), path, around))
	case reflect.Struct:
		if slices.Contains(around, of) {
			return nil // a schema in a schema
		}
		return f.ofStruct(of, path, append(slices.Clone(around), of))
	case reflect.Interface:
		return nil
	}
	return 1
}

func (f *filler) ofStruct(of reflect.Type, path string, around []reflect.Type) any {
	made := object{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		value := f.ofType(field.Type, path+"."+name, around)
		if embedded, is := value.(object); is && (name == "" || strings.Contains(options, "inline")) {
			for key, v := range embedded {
				made[key] = v
			}
		} else if value != nil {
			made[name] = value
		}
	}
	return made
}

// list returns a list with an item and, if such items may hold a credential that another text names, these.
func (f *filler) list(item any) []any {
	switch item := item.(type) {
	case nil:
		return nil
	case string:
		return []any{item, "--api-token", credential}
	case object:
		_, named := item["name"].(string)
		if _, valued := item["value"].(string); named && valued {
			return []any{item, object{"name": "DB_PASSWORD", "value": credential}}
		}
	}
	return []any{item}
}

// ofSchema returns a value that a definition describes.
func (f *filler) ofSchema(of *apiextensionsv1.JSONSchemaProps, path string) any {
	switch {
	case of.XIntOrString:
		return f.text(path)
	case of.Type == "string" && of.Format == "date-time":
		return someTime
	case of.Type == "string":
		return f.text(path)
	case of.Type == "boolean":
		return true
	case of.Type == "integer" || of.Type == "number":
		return 1
	case of.Type == "array":
		return f.list(f.ofSchema(of.Items.Schema, path))
	case len(of.Properties) > 0:
		made := object{}
		for name := range of.Properties {
			property := of.Properties[name]
			made[name] = f.ofSchema(&property, path+"."+name)
		}
		return made
	case of.AdditionalProperties != nil && of.AdditionalProperties.Schema != nil && of.AdditionalProperties.Schema.Type != "string":
		return object{"k": f.ofSchema(of.AdditionalProperties.Schema, path)}
	}
	return object{"k": f.text(path), "password": credential}
}

// definitions has the schemas of kinds without a type, by resource.
func definitions(t *testing.T) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	all := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, set := range []crds.Set{crds.OpenShift, crds.OLMv1Experimental, crds.GroupSnapshots} {
		file, err := set.Ensure(t.Context())
		require.NoError(t, err)
		read, err := crds.Read(file)
		require.NoError(t, err)
		for _, definition := range read {
			for _, version := range definition.Spec.Versions {
				if kind, is := kinds[definition.Spec.Names.Plural]; is && kind.group == definition.Spec.Group && kind.version == version.Name {
					all[definition.Spec.Names.Plural] = version.Schema.OpenAPIV3Schema
				}
			}
		}
	}
	all["clusterextensionrevisions"] = all["clusterobjectsets"] // its later name
	return all
}

// fill returns an object of a resource that has a text in each field, and the number of these.
func fill(t *testing.T, schemas map[string]*apiextensionsv1.JSONSchemaProps, resource string, texts []string, round int) (object, int) {
	t.Helper()
	kind := kinds[resource]
	f := &filler{texts: texts, round: round, kind: resource}
	var made object
	if kind.of != nil {
		made = f.ofType(reflect.TypeOf(kind.of), "", nil).(object)
	} else {
		require.NotNilf(t, schemas[resource], "no definition of %s: name its type, or the set of definitions that has it", resource)
		made = f.ofSchema(schemas[resource], "").(object)
		made["metadata"] = f.ofType(reflect.TypeFor[metav1.ObjectMeta](), ".metadata", nil)
	}
	made["apiVersion"] = strings.TrimPrefix(kind.group+"/"+kind.version, "/")
	made["kind"] = kind.kind
	delete(made["metadata"].(object), "managedFields") // the client does not show them
	return made, f.fields
}
