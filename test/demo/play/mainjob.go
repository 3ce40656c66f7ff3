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

// mainJob is Berth's main job: a catalog is built, the Operator Lifecycle Manager (OLM) installs the EFS
// operator from it, the driver is installed, and a volume shared.
type mainJob struct{ *stage }

func playMainJob(ctx context.Context, s *stage) error {
	j := mainJob{s}
	err := s.play(ctx,
		step{"local cluster", s.startCluster},
		step{"bundle", s.generateBundle},
		step{"catalog", s.buildCatalog(s.path("bundle"), "catalog")},
		step{"catalog source", s.serveCatalog(catalogName, "catalog")},
		step{"subscription", s.subscribe(catalogName)},
		step{"driver", j.installDriver},
		step{"grant", j.grant},
		step{"shared volume", j.share},
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
