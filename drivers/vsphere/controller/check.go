package controller

import (
	"context"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/vsphere"
)

// oldest is the oldest version of vCenter and ESXi that the driver supports: 7.0 Update 2.
var oldest = version.MustParseGeneric("7.0.2")

// classes returns the driver's StorageClass if all of the cluster's vCenters meet the driver's requirements, and
// otherwise a sentence about each unmet requirement.
func classes(ctx context.Context, cloud drivers.Cloud) (found []storagev1.StorageClass, leftOut []string, err error) {
	if _, err := Content(cloud); err != nil {
		return nil, nil, err
	}
	all, err := vCenters(cloud)
	if err != nil {
		return nil, nil, err
	}
	roots, err := drivers.Authorities(cloud.TrustedCABundle)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range all {
		problems, err := v.check(ctx, roots)
		if err != nil {
			return nil, nil, fmt.Errorf("vCenter %s: %w", v.server, err)
		}
		for _, problem := range problems {
			leftOut = append(leftOut, fmt.Sprintf("vCenter %s: %s.", v.server, problem))
		}
	}
	if len(leftOut) > 0 {
		return nil, leftOut, nil
	}
	return []storagev1.StorageClass{storageClass()}, nil, nil
}

// check logs in to the vCenter, and returns the driver's unmet requirements.
func (v vCenter) check(ctx context.Context, roots *x509.CertPool) (problems []string, err error) {
	s, err := v.connect(ctx, roots)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if problem, err := tooOld("the vCenter", s.content.About.APIVersion); err != nil || problem != "" {
		return []string{problem}, err // without a supported version, there are no other checks
	}
	if err := s.login(ctx, v.user, v.password); err != nil {
		return nil, fmt.Errorf("logging in as %s, of Secret %s: %w", v.user, vsphere.Driver.Configuration.Credentials, err)
	}
	for _, datacenter := range v.datacenters {
		object, err := s.find(ctx, datacenter)
		if err != nil {
			return nil, err
		}
		if object == nil {
			problems = append(problems, fmt.Sprintf("%s sees no datacenter %s: correct the configuration, or permit it to read the datacenter", v.user, datacenter))
		}
	}
	for _, path := range v.clusters {
		object, err := s.find(ctx, path)
		if err != nil {
			return nil, err
		}
		if object == nil {
			problems = append(problems, fmt.Sprintf("%s sees no compute cluster %s: correct the configuration, or permit it to read the cluster", v.user, path))
			continue
		}
		hosts, err := s.hosts(ctx, *object)
		if err != nil {
			return nil, fmt.Errorf("reading the hosts of %s: %w", path, err)
		}
		for _, host := range hosts {
			problem, err := tooOld(fmt.Sprintf("host %s of %s", host.name, path), host.apiVersion)
			if err != nil {
				return nil, err
			}
			if problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	return problems, nil
}

// tooOld returns what to do about a version that is too old; "" if the version is new enough.
func tooOld(what, apiVersion string) (problem string, err error) {
	found, err := version.ParseGeneric(apiVersion)
	if err != nil {
		return "", fmt.Errorf("%s has the version %q: %w", what, apiVersion, err)
	}
	if found.AtLeast(oldest) {
		return "", nil
	}
	return fmt.Sprintf("%s has version %s, and the driver needs %s: update it", what, apiVersion, oldest), nil
}

// storageClass returns the driver's StorageClass. It names no storage policy: vCenter chooses a datastore that all nodes reach.
func storageClass() storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: vsphere.Driver.Certification.Class},
		Provisioner:          vsphere.Driver.CSIName,
		ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    new(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: new(true),
	}
}
