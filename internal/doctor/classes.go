package doctor

import (
	"context"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// defaultClassAnnotations are the annotations by which Kubernetes recognizes the default
// StorageClass.
var defaultClassAnnotations = []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

// examineDefaultClass examines the StorageClass of claims that name none.
func examineDefaultClass(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	classes := &storagev1.StorageClassList{}
	if err := p.list(ctx, classes); err != nil {
		return nil, err
	}
	return []findings.Check{judgeDefaultClass(classes.Items)}, nil
}

// examineClassRisks finds StorageClasses of the driver that endanger files.
func examineClassRisks(ctx context.Context, p *examinedDriver) (results []findings.Check, err error) {
	if p.driver.ClassRisk == nil {
		return nil, nil
	}
	classes := &storagev1.StorageClassList{}
	if err := p.list(ctx, classes); err != nil {
		return nil, err
	}
	return judgeClassRisks(p.driver, classes.Items), nil
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

func judgeDefaultClass(classes []storagev1.StorageClass) findings.Check {
	var defaults []string
	for _, class := range classes {
		if slices.ContainsFunc(defaultClassAnnotations, func(key string) bool { return class.Annotations[key] == "true" }) {
			defaults = append(defaults, class.Name)
		}
	}
	switch len(defaults) {
	case 0:
		return findings.Pass(defaultClassNone, "no StorageClass is the default: claims have to name one")
	case 1:
		return findings.Pass(defaultClass, "StorageClass %s is the default", defaults[0])
	}
	return findings.Warn(defaultClassSeveral, escape.Command("oc annotate storageclass NAME %s", defaultClassAnnotations[0]+"-"), "%d StorageClasses are the default, and claims get the newest: %s", len(defaults), strings.Join(defaults, ", "))
}
