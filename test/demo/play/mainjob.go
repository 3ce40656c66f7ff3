package main

import (
	"context"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/journey"
)

const (
	catalogName = "berth"
	volumeName  = "website"
	team        = "default" // the namespace that shares it
)

var access = sharedvolume.SharedVolumeSpec{FileSystemID: "fs-0123456789abcdef0", AccessPointID: "fsap-0123456789abcdef0"}

// mainJob is Berth's main job: build a catalog, let the Operator Lifecycle Manager (OLM) install the EFS operator
// from it, install the driver, and share a volume.
type mainJob struct{ *demo }

func runMainJob(ctx context.Context, s *demo) error {
	j := mainJob{s}
	err := s.run(ctx,
		stage{"local cluster", s.startCluster},
		stage{"bundle", s.generateBundle},
		stage{"catalog", s.buildCatalog(s.path("bundle"), "catalog")},
		stage{"catalog source", s.serveCatalog(catalogName, "catalog")},
		stage{"subscription", s.subscribe(catalogName)},
		stage{"driver", j.installDriver},
		stage{"grant", j.grant},
		stage{"shared volume", j.share},
	)
	if err == nil {
		j.farewell()
	}
	return err
}

func (j mainJob) installDriver(ctx context.Context) (string, error) {
	err := journey.InstallDriver(ctx, j.cluster.Client(), j.driver.CSIName)
	return fmt.Sprintf("ClusterCSIDriver %s is Available", j.driver.CSIName), err
}

func (j mainJob) grant(ctx context.Context) (string, error) {
	err := journey.Grant(ctx, j.cluster.Client(), team, access.FileSystemID, access.AccessPointID)
	return fmt.Sprintf("SharedVolumeGrant %s lets namespace %[1]s use the access point", team), err
}

func (j mainJob) share(ctx context.Context) (string, error) {
	volume := &sharedvolume.SharedVolume{ObjectMeta: metav1.ObjectMeta{Name: volumeName, Namespace: team}, Spec: access}
	claim, err := journey.Share(ctx, j.cluster.Client(), volume)
	return fmt.Sprintf("SharedVolume %s is Ready, its claim %s is Bound", volumeName, claim), err
}

func (j mainJob) farewell() {
	fmt.Printf(`
The cluster stays up until 'make demo-down'. To look at it:

  export KUBECONFIG=%s

  %[2]s get sharedvolumegrants,sharedvolumes,pvc,pv
  %[2]s get clustercsidriver %[3]s -o yaml
  %[2]s -n %[4]s get csv,pods
`, j.cluster.Kubeconfig(), filepath.Base(j.home)+"/kubectl", j.driver.CSIName, namespace)
}
