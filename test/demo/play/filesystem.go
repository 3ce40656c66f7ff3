package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/internal/aws/provision"
	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
)

// awsCloud is a region of AWS without file systems. The file aws.env has the variables with which an administrator reaches it.
var awsCloud = simulatedCloud{
	name: "aws", olm: true,
	archives: func(ctx context.Context, report func(tools.Progress)) (map[string]string, error) {
		return testbed.Archives(ctx, report, efs.Driver, nil)
	},
	start: func(t testing.TB, s *demo) (testbed.Cloud, error) {
		region := testbed.StartAWS(t, efs.Driver, aws.Options{Settle: time.Second})
		files := testbed.AddFileSystems(t, region)
		cloud := region.Options()
		files.Serve(&cloud)
		administrator := region.AddUser(t, "administrator", slices.Concat(provision.Permissions, removal.Permissions)...)
		var env strings.Builder
		for _, variable := range append(region.Environment(t, nil), aws.Variables(administrator)...) {
			name, value, _ := strings.Cut(variable, "=")
			fmt.Fprintf(&env, "%s=%s\n", name, quoted(value))
		}
		return cloud, os.WriteFile(s.path("aws.env"), []byte(env.String()), 0o600)
	},
}

func runAWSCloud(ctx context.Context, s *demo) error { return awsCloud.run(ctx, s) }

// fileSystem demonstrates a file system from creation to deletion: berth aws create, the main job, berth aws destroy.
type fileSystem struct{ *mainJob }

func runAWS(ctx context.Context, s *demo) error {
	if err := awsCloud.build(ctx, s); err != nil {
		return err
	}
	f := fileSystem{&mainJob{demo: s}}
	if err := s.run(ctx, stage{"local cluster", awsCloud.startCluster(s)}, stage{"earlier volumes", f.removeVolumes}); err != nil {
		return err
	}
	env, err := os.ReadFile(s.path("aws.env"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(env)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		s.env = append(s.env, name+"="+unquoted(value))
	}
	create := []string{"berth", "aws", "create", "--access-point", "/" + volumeName}
	for _, args := range [][]string{append(slices.Clone(create), "--dry-run"), create} {
		if err := s.show(ctx, args...); err != nil {
			return err
		}
	}
	fmt.Println()
	if err := s.run(ctx,
		stage{"bundle", s.generateBundle},
		stage{"catalog", s.buildCatalog(s.path("bundle"), "catalog")},
		stage{"catalog source", s.serveCatalog(catalogName, "catalog")},
		stage{"subscription", s.subscribe(catalogName)},
		stage{"driver", f.installDriver},
		stage{"IDs", f.readIDs},
		stage{"grant", f.grant},
		stage{"shared volume", f.share},
		stage{"pods", f.usePods},
		stage{"class", f.createClass},
		stage{"claim", f.useClaim},
	); err != nil {
		return err
	}
	destroy := []string{"berth", "aws", "destroy", "--infra-id", cluster.InfrastructureName}
	for _, args := range [][]string{destroy, append(slices.Clone(destroy), "--confirm"), destroy} {
		if err := s.show(ctx, args...); err != nil {
			return err
		}
	}
	f.farewell()
	return nil
}

// claimant names a pod and its claim.
var claimant = client.ObjectKey{Namespace: team, Name: "claimant"}

// removeVolumes removes an earlier run's volumes: its file system is gone.
func (f fileSystem) removeVolumes(ctx context.Context) (string, error) {
	var objects []client.Object
	for _, name := range append(slices.Clone(pods), claimant.Name) {
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}})
	}
	objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claimant.Namespace, Name: claimant.Name}},
		&sharedvolume.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: volumeName}},
		&sharedvolume.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: team}})
	var removed []client.Object
	for _, object := range objects {
		switch err := f.cluster.Client().Delete(ctx, object); {
		case err == nil:
			removed = append(removed, object)
		case client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err):
			return "", err
		}
	}
	if len(removed) == 0 {
		return "there are none", nil
	}
	return fmt.Sprintf("%d objects are gone", len(removed)), journey.Gone(ctx, f.cluster.Client(), removed...)
}

// berthOutput runs a command of berth as the administrator of the cluster and of AWS, and returns its standard output.
func (f fileSystem) berthOutput(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, f.program("berth"), args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+f.cluster.Kubeconfig()), f.env...)
	said := &strings.Builder{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("berth %s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return out, nil
}

// readIDs reads the IDs of the created file system and access point.
func (f fileSystem) readIDs(ctx context.Context) (string, error) {
	out, err := f.berthOutput(ctx, "aws", "create", "--access-point", "/"+volumeName, "--output", "json")
	if err != nil {
		return "", err
	}
	var created provision.Report
	if err := json.Unmarshal(out, &created); err != nil {
		return "", err
	}
	for _, resource := range created.Resources {
		switch resource.Kind {
		case removal.FileSystem:
			f.access.FileSystemID = resource.ID
		case removal.AccessPoint:
			f.access.AccessPointID = resource.ID
		}
	}
	return fmt.Sprintf("the same command again creates nothing: %s, %s", f.access.FileSystemID, f.access.AccessPointID), nil
}

// createClass creates the StorageClass that berth aws create prints.
func (f fileSystem) createClass(ctx context.Context) (string, error) {
	class, err := f.berthOutput(ctx, "aws", "create", "--output", "storageclass")
	if err != nil {
		return "", err
	}
	kubectl := f.cluster.Kubectl(ctx, "apply", "-f", "-")
	kubectl.Stdin = strings.NewReader(string(class))
	if out, err := kubectl.CombinedOutput(); err != nil {
		return "", fmt.Errorf("kubectl apply: %w\n%s", err, out)
	}
	return "berth aws create -o storageclass | kubectl apply -f -", nil
}

// useClaim makes a pod write to a claim; the driver creates the claim's access point.
func (f fileSystem) useClaim(ctx context.Context) (string, error) {
	return f.writeToClaim(ctx, claimant, "efs-dynamic", corev1.ReadWriteMany)
}

func (f fileSystem) farewell() {
	f.demo.farewell("The file system is gone; the cluster stays up until 'make demo-down'. To create another one:",
		f.onPath(filepath.Join(f.home, "bin"))+"\n  set -a; . "+quoted(f.path("aws.env"))+"; set +a",
		"berth aws create --help",
		"berth aws create",
	)
}
