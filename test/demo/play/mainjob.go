package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/drivers/testbed"
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
type mainJob struct {
	*demo
	access sharedvolume.SharedVolumeSpec
	claim  string // of the SharedVolume
}

func runMainJob(ctx context.Context, s *demo) error {
	j := &mainJob{demo: s, access: access}
	if err := s.buildDriver(ctx, nil); err != nil {
		return err
	}
	stages := []stage{
		{"local cluster", s.startCluster},
		{"bundle", s.generateBundle},
		{"catalog", s.buildCatalog(s.path("bundle"), "catalog")},
		{"catalog source", s.serveCatalog(catalogName, "catalog")},
		{"subscription", s.subscribe(catalogName)},
		{"driver", j.installDriver},
		{"grant", j.grant},
		{"shared volume", j.share},
	}
	if s.archives != nil {
		stages = slices.Insert(stages, 1, stage{"cloud", s.startCloud})
		stages = append(stages, stage{"pods", j.usePods})
	}
	if err := s.run(ctx, stages...); err != nil {
		return err
	}
	j.farewell()
	return nil
}

// pods use the shared volume, each on a node of its own.
var pods = []string{"first", "second"}

// usePods runs a pod on each node. Each writes a file on the shared volume, and reads the other one's.
func (j *mainJob) usePods(ctx context.Context) (string, error) {
	for i, name := range pods {
		pod := journey.PodWithClaim(team, name, j.claim)
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: testbed.Nodes[i]}
		if err := journey.Ensure(ctx, j.cluster.Client(), pod); err != nil {
			return "", err
		}
	}
	for _, name := range pods {
		if err := journey.AwaitPod(ctx, j.cluster.Client(), client.ObjectKey{Namespace: team, Name: name}); err != nil {
			return "", err
		}
	}
	for i, writer := range pods {
		reader := pods[1-i]
		greeting := "ahoy from " + testbed.Nodes[i] + "\n"
		if _, err := j.exec(ctx, writer, userProgram, "write", fileOf(writer), greeting); err != nil {
			return "", err
		}
		read, err := j.exec(ctx, reader, readFrom(writer)...)
		if err != nil {
			return "", err
		}
		if read != greeting {
			return "", fmt.Errorf("pod %s reads %q, want %q, which pod %s wrote", reader, read, greeting, writer)
		}
	}
	programs, err := testbed.Programs(j.driver, nil)
	return fmt.Sprintf("on nodes %s and %s read what the other one wrote; %s", testbed.Nodes[0], testbed.Nodes[1], programs), err
}

func (j *mainJob) installDriver(ctx context.Context) (string, error) {
	err := journey.InstallDriver(ctx, j.cluster.Client(), j.driver.CSIName)
	return fmt.Sprintf("ClusterCSIDriver %s is Available", j.driver.CSIName), err
}

func (j *mainJob) grant(ctx context.Context) (string, error) {
	err := journey.Grant(ctx, j.cluster.Client(), team, j.access.FileSystemID, j.access.AccessPointID)
	return fmt.Sprintf("SharedVolumeGrant %s lets namespace %[1]s use the access point", team), err
}

func (j *mainJob) share(ctx context.Context) (string, error) {
	volume := &sharedvolume.SharedVolume{ObjectMeta: metav1.ObjectMeta{Name: volumeName, Namespace: team}, Spec: j.access}
	claim, err := journey.Share(ctx, j.cluster.Client(), volume)
	j.claim = claim
	return fmt.Sprintf("SharedVolume %s is Ready, its claim %s is Bound", volumeName, claim), err
}

func (j *mainJob) farewell() {
	commands := []string{
		j.kubectl() + " get sharedvolumegrants,sharedvolumes,pvc,pv",
		j.kubectl() + " get clustercsidriver " + j.driver.CSIName + " -o yaml",
		j.kubectl() + " -n " + namespace + " get csv,pods -o wide",
	}
	if j.archives != nil {
		commands = append(commands, fmt.Sprintf("%s -n %s exec %s -- %s", j.kubectl(), team, pods[0], strings.Join(readFrom(pods[1]), " ")))
	}
	j.demo.farewell(staysUp, "", commands...)
	fmt.Printf("\nTo follow the pages in docs/operate, use %s for oc, %s/bin/berth for berth, and NS=%s.\n", j.kubectl(), filepath.Base(j.home), namespace)
	fmt.Println("Nothing creates access points here, so claims of StorageClasses stay Pending: 'make demo-aws' has a cloud that does.")
}
