// Package doctor examines everything that a driver needs on a cluster, from the Operator Lifecycle Manager (OLM) down to the
// SharedVolumes of applications, and reports faults with advice.
//
// It only reads, with the permissions of the user. It reports objects that the user may not read as not examined, never as fine.
// Anybody may create namespaces and write objects in them, so package drivers/placement finds a driver by cluster-scoped objects
// alone.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/listing"
)

// Schema is the schema of a Report in JSON.
const Schema = "berth.doctor.v1"

// Section has the results about one subject.
type Section struct {
	Subject string           `json:"subject"`
	Results []findings.Check `json:"results"`
}

// DriverReport holds the results about a driver.
type DriverReport struct {
	// Driver is the name of its CSIDriver.
	Driver   string    `json:"driver"`
	Sections []Section `json:"sections"`
}

// Report holds the results of an examination.
type Report struct {
	// Schema is the name and version of the schema.
	Schema string `json:"schema"`
	// Healthy reports whether there is no fault, and everything could be examined.
	Healthy bool `json:"healthy"`
	// Cluster holds the results about prerequisites of all drivers.
	Cluster []Section      `json:"cluster"`
	Drivers []DriverReport `json:"drivers"`
	// Namespace is the only examined namespace, if a team's was examined.
	Namespace string `json:"namespace,omitempty"`
	// Team holds the results about the team's objects in that namespace.
	Team []Section `json:"team,omitempty"`
}

// Cluster is the connection to a cluster.
type Cluster struct {
	Config *rest.Config
	Client client.Client
}

// AddToScheme adds the types that an examination reads.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, authorizationv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme, configv1.Install, operatorv1.Install, v1alpha1.AddToScheme, operatorsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// subject is a part of a driver's installation. examine reads it and returns the results.
type subject struct {
	name    string
	examine func(context.Context, *examinedDriver) ([]findings.Check, error)
}

// ofCluster are the subjects that all drivers share, and ofDriver the subjects of each driver. The first section with a fault has the cause
// of all faults: each section depends on the sections above it.
var (
	ofCluster = []subject{
		{"Operator Lifecycle Manager", examineOLM},
		{"StorageClasses", examineDefaultClass},
	}
	ofDriver = []subject{
		{"Subscription and catalog", examineSubscriptions},
		{"Operator", examineOperator},
		{"ClusterCSIDriver", examineCustomResource},
		{"Namespace", examineNamespace},
		{"Credentials", examineCredentials},
		{"Driver pods", examineWorkloads},
		{"Classes of the driver", examineClassRisks},
		{"SharedVolumes", examineSharedVolumes},
	}
)

// examinedDriver is a driver during its examination.
type examinedDriver struct {
	Cluster
	driver drivers.Driver
	*location
	// inactive is set if no operator of the driver is active: the operators' reports are then out of date.
	inactive bool
}

// Examine examines the cluster and drivers. If named is empty, it examines the candidates that somebody has installed or asked OLM
// to install. It fails if the API server does not answer.
func Examine(ctx context.Context, cluster Cluster, candidates, named []drivers.Driver) (*Report, error) {
	report := &Report{Schema: Schema, Healthy: true, Cluster: []Section{}, Drivers: []DriverReport{}}
	var err error
	if report.Cluster, err = report.examine(ctx, ofCluster, &examinedDriver{Cluster: cluster}); err != nil {
		return nil, err
	}
	chosen := named
	if len(named) == 0 {
		chosen = candidates
	}
	var unread error // why the other drivers could not be looked for
	needsOLM := false
	for _, d := range chosen {
		f, err := find(ctx, cluster, d)
		if err != nil {
			return nil, err
		}
		if len(named) == 0 && !f.any() {
			unread = cmp.Or(unread, f.subscriptionsErr, f.driverErr)
			continue
		}
		sections, err := report.examine(ctx, ofDriver, &examinedDriver{Cluster: cluster, driver: d, location: f})
		if err != nil {
			return nil, err
		}
		report.Drivers = append(report.Drivers, DriverReport{Driver: d.CSIName, Sections: sections})
		needsOLM = needsOLM || f.decision.Owner == nil
	}
	if len(report.Drivers) > 0 && !needsOLM { // the cluster storage operator runs the operators of all
		report.Cluster = slices.DeleteFunc(report.Cluster, func(s Section) bool { return s.Results[0].Code == olmMissing })
	}
	if unread != nil {
		result, _ := notExamined(unread) // find returns all other errors
		result.What = "which drivers are installed: " + result.What
		report.Cluster, report.Healthy = append(report.Cluster, Section{Subject: "Drivers", Results: []findings.Check{result}}), false
	}
	return report, nil
}

// examine examines subjects of a driver.
func (r *Report) examine(ctx context.Context, subjects []subject, p *examinedDriver) ([]Section, error) {
	var sections []Section
	for _, s := range subjects {
		results, err := s.examine(ctx, p)
		if err != nil {
			result, err := notExamined(err)
			if err != nil {
				return nil, err
			}
			results = append(results, result)
		}
		for _, result := range results {
			r.Healthy = r.Healthy && result.Verdict != findings.Fault && result.Verdict != findings.NotExamined
		}
		if len(results) > 0 {
			sections = append(sections, Section{Subject: s.name, Results: results})
		}
	}
	return sections, nil
}

// notExamined returns a result if the API server refused to show an object, and an error if it did not answer.
func notExamined(err error) (findings.Check, error) {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return findings.Check{}, err
	}
	result := findings.Check{Code: notExaminedCode, Verdict: findings.NotExamined, What: err.Error(), Do: "try again"}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		result.Do = "run it as a cluster administrator; for your own namespace alone: berth doctor -n NAMESPACE"
	}
	return result, nil
}

// optional ignores errors about an API that the cluster does not serve, or an object that does not exist.
func optional(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// read reads an object, and reports whether it exists. It reads nothing if the name is invalid, or if a namespace is needed and empty or
// invalid: a stranger may have written these.
func (c Cluster) read(ctx context.Context, object client.Object, namespace, name string) (bool, error) {
	if name == "" || len(content.IsPathSegmentName(name))+len(content.IsPathSegmentName(namespace)) > 0 {
		return false, nil
	}
	if inNamespace, err := c.Client.IsObjectNamespaced(object); err == nil && inNamespace && namespace == "" {
		return false, nil
	}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if optional(err) != nil {
		return false, fmt.Errorf("reading %s %s: %w", c.kindOf(object), name, err)
	}
	return err == nil, nil
}

// list lists objects of a kind. It returns none if the cluster does not serve the kind.
func (c Cluster) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := optional(c.Client.List(ctx, list, options...)); err != nil {
		return fmt.Errorf("listing objects of kind %s: %w", strings.TrimSuffix(c.kindOf(list), "List"), err)
	}
	return nil
}

// kindOf returns the kind of an object for users.
func (c Cluster) kindOf(object runtime.Object) string {
	kind, err := c.Client.GroupVersionKindFor(object)
	if err != nil {
		return "object"
	}
	return kind.Kind
}

// each reads a long list of an API, one object at a time.
func each[T any](ctx context.Context, c Cluster, api schema.GroupVersion, list listing.List, do func(T) error) error {
	client, err := c.rest(api)
	if err != nil {
		return err
	}
	return listing.Each(ctx, client, list, do)
}

// rest returns a client for reading long lists of an API.
func (c Cluster) rest(api schema.GroupVersion) (rest.Interface, error) {
	config := rest.CopyConfig(c.Config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &api, "/apis", clientgoscheme.Codecs.WithoutConversion()
	if api.Group == "" {
		config.APIPath = "/api"
	}
	return rest.RESTClientFor(config)
}
