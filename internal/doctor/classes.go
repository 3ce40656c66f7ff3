package doctor

import (
	"context"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/listing"
)

// defaultClassAnnotations are the annotations by which Kubernetes recognizes the default
// StorageClass.
var defaultClassAnnotations = []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

// examineDefaultClass examines the StorageClass of claims that name none.
func examineDefaultClass(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	var defaults []storagev1.StorageClass
	err := eachClass(ctx, p, func(class storagev1.StorageClass) error {
		if isDefault(class) {
			defaults = append(defaults, storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class.Name, Annotations: map[string]string{defaultClassAnnotations[0]: "true"}}})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []findings.Check{judgeDefaultClass(defaults)}, nil
}

// eachClass reads StorageClasses one at a time: who administers storage, and nothing else, decides how large and how many they are.
func eachClass(ctx context.Context, p *examinedDriver, do func(storagev1.StorageClass) error) error {
	return each(ctx, p.Cluster, storagev1.SchemeGroupVersion, listing.List{Resource: "storageclasses"}, do)
}

// examineClassRisks finds StorageClasses of the driver that endanger files.
func examineClassRisks(ctx context.Context, p *examinedDriver) (results []findings.Check, err error) {
	if p.driver.ClassRisk == nil {
		return nil, nil
	}
	risky := few[findings.Check]{bad: func(findings.Check) bool { return false }}
	err = eachClass(ctx, p, func(class storagev1.StorageClass) error {
		for _, result := range judgeClassRisks(p.driver, []storagev1.StorageClass{class}) {
			risky.add(result)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return append(risky.kept, risky.rest(classRisk, "StorageClass", "oc get storageclasses")...), nil
}

func judgeClassRisks(d drivers.Driver, classes []storagev1.StorageClass) (results []findings.Check) {
	for _, class := range classes {
		if class.Provisioner != d.CSIName && (d.InTree.Plugin == "" || class.Provisioner != d.InTree.Plugin) {
			continue
		}
		if risk := d.ClassRisk(&class); risk != "" {
			results = append(results, findings.Warn(classRisk, "replace it by a class whose claims share nothing or, if only deletions are a risk, by one with reclaimPolicy Retain; and before somebody deletes a claim, set the reclaim policy of its PersistentVolume to Retain: see "+
				findings.Page("reference/security.md#what-is-not-defended-here"), "StorageClass %s: %s", class.Name, risk))
		}
	}
	return results
}

func isDefault(class storagev1.StorageClass) bool {
	return slices.ContainsFunc(defaultClassAnnotations, func(key string) bool { return class.Annotations[key] == "true" })
}

func judgeDefaultClass(classes []storagev1.StorageClass) findings.Check {
	var defaults []string
	for _, class := range classes {
		if isDefault(class) {
			defaults = append(defaults, class.Name)
		}
	}
	switch len(defaults) {
	case 0:
		return findings.Pass(defaultClassNone, "no StorageClass is the default: claims have to name one")
	case 1:
		return findings.Pass(defaultClass, "StorageClass %s is the default", defaults[0])
	}
	return findings.Warn(defaultClassSeveral, escape.Command("oc annotate storageclass NAME %s", defaultClassAnnotations[0]+"-"), "%d StorageClasses are the default, and claims get the newest: %s", len(defaults), names(defaults))
}
