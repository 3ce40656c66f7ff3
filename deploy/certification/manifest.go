// Package certification generates the files that CI systems need to run Kubernetes' external storage tests and
// OpenShift's suite openshift/csi for each driver: the manifests of both, StorageClasses and VolumeSnapshotClasses, the
// image with these, and the steps of a job. It generates them from the drivers' definitions into the folder manifests.
//
// https://github.com/kubernetes/kubernetes/tree/v1.36.3/test/e2e/storage/external and
// https://github.com/openshift/origin/tree/main/test/extended/storage/csi define the formats. Neither suite complains
// about unknown fields.
package certification

import (
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
)

// manifest is the manifest of Kubernetes' tests.
type manifest struct {
	ShortName             string
	StorageClass          class
	SnapshotClass         *class `json:",omitempty"`
	VolumeAttributesClass *class `json:",omitempty"`
	DriverInfo            driverInfo
}

// class says where tests find a class: in the cluster, or in a file beside the manifest.
type class struct {
	FromExistingClassName string `json:",omitempty"`
	FromFile              string `json:",omitempty"`
}

// driverInfo lists a driver's features. Sets are maps without values.
type driverInfo struct {
	Name                 string
	SupportedSizeRange   sizeRange
	SupportedFsType      map[string]struct{}
	SupportedMountOption map[string]struct{} `json:",omitempty"`
	TopologyKeys         []string            `json:",omitempty"`
	Capabilities         map[string]bool
}

type sizeRange struct {
	Min string
	Max string `json:",omitempty"`
}

// subject is a driver, with the objects in its assets.
type subject struct {
	drivers.Driver
	manifests []drivers.Manifest
	csiDriver storagev1.CSIDriverSpec
}

// newSubject reads the assets of a driver. Images do not matter.
func newSubject(d drivers.Driver) (*subject, error) {
	if d.Certification.Class == "" {
		return nil, errors.New("its definition has no Certification.Class: want the name of a StorageClass that tests can use")
	}
	manifests, err := d.Operand(drivers.Values{Namespace: namespace(d), Image: func(env string) string { return env }})
	if err != nil {
		return nil, err
	}
	found := drivers.Named(manifests, "CSIDriver", d.CSIName)
	if len(found) != 1 {
		return nil, fmt.Errorf("found %d assets with CSIDriver %s, want one", len(found), d.CSIName)
	}
	typed := &storagev1.CSIDriver{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object.Object, typed); err != nil {
		return nil, fmt.Errorf("asset %s: %w", found[0].File, err)
	}
	return &subject{Driver: d, manifests: manifests, csiDriver: typed.Spec}, nil
}

// capabilities are the capabilities that Kubernetes' tests know, in the order of their documentation, each with the
// check whether a driver has it.
var capabilities = []struct {
	name string
	has  func(*subject) bool
}{
	{"persistence", always},
	{"block", (*subject).attaches}, // An attached volume is a device, and pods can use it as one.
	{"fsGroup", func(s *subject) bool {
		return s.hasFSGroupPolicy(storagev1.FileFSGroupPolicy) || s.Certification.MountGroup
	}},
	{"volumeMountGroup", func(s *subject) bool { return s.Certification.MountGroup }},
	{"exec", always},
	{"snapshotDataSource", (*subject).takesSnapshots},
	{"snapshotMetadata", never},
	{"groupSnapshot", never}, // The snapshotter's feature gate for it is off.
	{"pvcDataSource", func(s *subject) bool { return s.Certification.Clones }},
	{"multipods", always},
	{"RWX", (*subject).shares},
	{"controllerExpansion", (*subject).expands},
	{"nodeExpansion", func(s *subject) bool { return s.expands() && s.attaches() }}, // of the file system on the device
	{"offlineExpansion", (*subject).expands},
	{"onlineExpansion", (*subject).expands},
	// Each driver for devices has limits. The tests would fill a node, with up to 256 volumes: OpenShift's LUN stress test does that.
	{"volumeLimits", never},
	{"singleNodeVolume", never},
	{"topology", func(s *subject) bool { return len(s.Certification.TopologyKeys) > 0 }},
	{"capacity", func(s *subject) bool { return is(s.csiDriver.StorageCapacity) }},
	{"FSResizeFromSourceNotSupported", never},
	{"readWriteOncePod", always}, // The sidecars are recent enough.
	{"multiplePVsSameID", always},
	{"capReadOnlyMany", never}, // The tests have one reader only.
	{"seLinuxMount", func(s *subject) bool { return is(s.csiDriver.SELinuxMount) }},
}

func always(*subject) bool { return true }
func never(*subject) bool  { return false }
func is(value *bool) bool  { return value != nil && *value }

// attaches reports whether volumes are attached to nodes. True is the API server's default for a CSIDriver.
func (s *subject) attaches() bool {
	return s.csiDriver.AttachRequired == nil || *s.csiDriver.AttachRequired
}

// shares reports whether several nodes can write to a volume, as with network file systems.
func (s *subject) shares() bool         { return !s.attaches() }
func (s *subject) expands() bool        { return s.HasImage(drivers.ResizerImage) }
func (s *subject) takesSnapshots() bool { return s.HasImage(drivers.SnapshotterImage) }

func (s *subject) hasFSGroupPolicy(policy storagev1.FSGroupPolicy) bool {
	return s.csiDriver.FSGroupPolicy != nil && *s.csiDriver.FSGroupPolicy == policy
}

// Capabilities returns the capabilities that a driver's manifest says it has, or has not.
func Capabilities(d drivers.Driver) (map[string]bool, error) {
	s, err := newSubject(d)
	if err != nil {
		return nil, fmt.Errorf("certification of driver %s: %w", d.Name, err)
	}
	return s.capabilities(), nil
}

func (s *subject) capabilities() map[string]bool {
	found := map[string]bool{}
	for _, c := range capabilities {
		found[c.name] = c.has(s)
	}
	return found
}

// manifest returns the manifest of Kubernetes' tests. They use the classes that users get from the operator. The tests' default file
// system is the one without a name.
func (s *subject) manifest() manifest {
	facts := s.Certification
	m := manifest{
		ShortName:    s.Name,
		StorageClass: class{FromExistingClassName: facts.Class},
		DriverInfo: driverInfo{
			Name:                 s.CSIName,
			SupportedSizeRange:   sizeRange{Min: facts.MinSize, Max: facts.MaxSize},
			SupportedFsType:      set(append([]string{""}, facts.FileSystems...)),
			SupportedMountOption: set(facts.MountOptions),
			TopologyKeys:         facts.TopologyKeys,
			Capabilities:         s.capabilities(),
		},
	}
	if len(facts.Parameters) > 0 {
		m.StorageClass = class{FromFile: storageClassFile}
	}
	if s.takesSnapshots() {
		m.SnapshotClass = &class{FromExistingClassName: facts.SnapshotClass}
	}
	if len(facts.Attributes) > 0 {
		m.VolumeAttributesClass = &class{FromFile: attributesClassFile}
	}
	return m
}

func set(names []string) map[string]struct{} {
	found := map[string]struct{}{}
	for _, name := range names {
		found[name] = struct{}{}
	}
	return found
}

// ocpManifest is the manifest of OpenShift's suite, for its own tests.
type ocpManifest struct {
	Driver        string
	LUNStressTest lunStressTest
}

// lunStressTest runs pods with a volume each on one node.
type lunStressTest struct {
	PodsTotal int
	Timeout   string
}

// stress has more than 256 volumes, because numbers of LUNs may be wrong from there on. It also serves drivers without LUNs.
var stress = lunStressTest{PodsTotal: 260, Timeout: "40m"}

// storageClass returns the StorageClass of the tests: the asset, with the parameters that an administrator has to set. It returns nil for
// a class that comes from no asset, but from the driver's backend.
func (s *subject) storageClass() (*unstructured.Unstructured, error) {
	found := drivers.Named(s.manifests, "StorageClass", s.Certification.Class)
	if len(found) == 0 {
		if s.Backend == nil {
			return nil, fmt.Errorf("there is no asset with StorageClass %s, and no backend that offers one", s.Certification.Class)
		}
		return nil, nil
	}
	class := found[0].Object.DeepCopy()
	for key, value := range s.Certification.Parameters {
		if err := unstructured.SetNestedField(class.Object, value, "parameters", key); err != nil {
			return nil, err
		}
	}
	if len(s.Certification.Parameters) > 0 { // it is not the operator's
		class.SetLabels(nil)
	}
	return class, nil
}

// snapshotClass returns the VolumeSnapshotClass, and nil if the driver takes no snapshots.
func (s *subject) snapshotClass() (*unstructured.Unstructured, error) {
	if !s.takesSnapshots() {
		return nil, nil
	}
	found := drivers.Named(s.manifests, "VolumeSnapshotClass", s.Certification.SnapshotClass)
	if len(found) != 1 {
		return nil, fmt.Errorf("found %d assets with VolumeSnapshotClass %q, want one", len(found), s.Certification.SnapshotClass)
	}
	return found[0].Object, nil
}

// attributesClass returns the VolumeAttributesClass, and nil if the driver changes no volumes.
func (s *subject) attributesClass() *unstructured.Unstructured {
	if len(s.Certification.Attributes) == 0 {
		return nil
	}
	parameters := map[string]any{}
	for key, value := range s.Certification.Attributes {
		parameters[key] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
		"metadata":   map[string]any{"name": s.Name},
		"driverName": s.CSIName, "parameters": parameters,
	}}
}
