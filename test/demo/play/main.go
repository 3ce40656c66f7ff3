// Command play plays Berth's main job on a local cluster: it builds a catalog, has the Operator
// Lifecycle Manager (OLM) install the EFS operator from it, installs the driver and shares a volume.
// The cluster stays up, to be looked at. Command demo builds what this needs and runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/cluster/node"
	"github.com/berth-csi/berth/test/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/narrator"
)

const (
	driverName   = "efs"
	version      = "1.0.0"
	namespace    = cluster.OperatorNamespace
	catalogName  = "berth"
	catalogImage = "quay.io/berth-csi/berth"
	volumeName   = "website"
	// stepLimit bounds each step.
	stepLimit = 2 * time.Minute
)

func main() {
	cluster.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 || (args[0] != "up" && args[0] != "down") {
		return fmt.Errorf("want \"up\" or \"down\", and the time when it began; got %q", args)
	}
	began, err := time.Parse(time.RFC3339Nano, args[1])
	if err != nil {
		return err
	}
	root, err := tools.Root()
	if err != nil {
		return err
	}
	d := &demo{root: root, narrator: narrator.New(os.Stdout, began)}
	if args[0] == "down" {
		return d.down(ctx)
	}
	return d.up(ctx)
}

type demo struct {
	root     string
	narrator *narrator.Narrator
	driver   drivers.Driver
	cluster  *cluster.Cluster
}

func (d *demo) up(ctx context.Context) (err error) {
	if d.driver, err = registry.Get(driverName); err != nil {
		return err
	}
	for _, s := range []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"local cluster", d.startCluster},
		{"bundle", d.generateBundle},
		{"catalog", d.buildCatalog},
		{"catalog source", d.serveCatalog},
		{"subscription", d.subscribe},
		{"driver", d.installDriver},
		{"shared volume", d.share},
	} {
		stepContext, cancel := context.WithTimeout(ctx, stepLimit)
		err := d.narrator.Step(s.what, func() (string, error) { return s.do(stepContext) })
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	d.farewell()
	return nil
}

func (d *demo) startCluster(ctx context.Context) (string, error) {
	running, err := cluster.Find(d.path("cluster"))
	if err == nil {
		d.cluster = running
		return "is up already", nil
	}
	if !errors.Is(err, cluster.ErrNotRunning) {
		return "", err
	}
	d.cluster, err = cluster.Up(ctx, d.path("cluster"), cluster.Options{
		OLM: true,
		Images: map[string]string{
			node.ImageRepository(d.driver.Operator.Image): d.path("bin", "berth-operator"),
			catalogImage: d.path("bin", "berth"),
		},
	}, d.narrator.Progress)
	return "is up", err
}

func (d *demo) generateBundle(ctx context.Context) (string, error) {
	return d.berth(ctx, "bundle", "generate", driverName, "--version", version, "--output", d.path("bundle"))
}

func (d *demo) buildCatalog(ctx context.Context) (string, error) {
	return d.berth(ctx, "catalog", "build", d.path("bundle"), "--output", d.path("catalog"))
}

func (d *demo) serveCatalog(ctx context.Context) (string, error) {
	err := journey.ServeCatalog(ctx, d.cluster.Client(), journey.Catalog{
		Name: catalogName, Folder: d.path("catalog"), Port: journey.CatalogPort, Image: catalogImage + ":demo",
		Args: []string{"catalog", "serve", journey.CatalogFolder, fmt.Sprintf("--address=$(POD_IP):%d", journey.CatalogPort)},
	})
	return fmt.Sprintf("OLM reads CatalogSource %s", catalogName), err
}

func (d *demo) subscribe(ctx context.Context) (string, error) {
	csv, err := journey.Subscribe(ctx, d.cluster.Client(), &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: d.driver.Package.Name, Namespace: namespace},
		Spec: &v1alpha1.SubscriptionSpec{
			CatalogSource: catalogName, CatalogSourceNamespace: cluster.CatalogNamespace,
			Package: d.driver.Package.Name, Channel: d.driver.Package.Channel,
		},
	})
	return fmt.Sprintf("OLM installed %s, its operator runs", csv), err
}

func (d *demo) installDriver(ctx context.Context) (string, error) {
	err := journey.InstallDriver(ctx, d.cluster.Client(), d.driver.CSIName)
	return fmt.Sprintf("ClusterCSIDriver %s is Available", d.driver.CSIName), err
}

func (d *demo) share(ctx context.Context) (string, error) {
	volume := &sharedvolume.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName, Namespace: "default"},
		Spec:       sharedvolume.SharedVolumeSpec{FileSystemID: "fs-0123456789abcdef0", AccessPointID: "fsap-0123456789abcdef0"},
	}
	claim, err := journey.Share(ctx, d.cluster.Client(), volume)
	return fmt.Sprintf("SharedVolume %s is Ready, its claim %s is Bound", volumeName, claim), err
}

func (d *demo) farewell() {
	kubectl := filepath.Base(d.path()) + "/kubectl"
	fmt.Printf(`
The cluster stays up until 'make demo-down'. To look at it:

  export KUBECONFIG=%s

  %[2]s get sharedvolumes,pvc,pv
  %[2]s get clustercsidriver %[3]s -o yaml
  %[2]s -n %[4]s get csv,pods
`, d.cluster.Kubeconfig(), kubectl, d.driver.CSIName, namespace)
}

func (d *demo) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return d.narrator.Step("local cluster", func() (string, error) {
		err := cluster.Stop(ctx, d.path("cluster"))
		if errors.Is(err, cluster.ErrNotRunning) {
			return "was not up", nil
		}
		return "is down", err
	})
}

// berth runs the command that a release engineer would, and returns it as the step's result.
func (d *demo) berth(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, d.path("bin", "berth"), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	shown := make([]string, len(args))
	for i, arg := range args {
		if relative, err := filepath.Rel(d.root, arg); err == nil && filepath.IsAbs(arg) {
			arg = relative
		}
		shown[i] = arg
	}
	return "berth " + strings.Join(shown, " "), nil
}

// path returns a path in the folder that holds everything of the demonstration.
func (d *demo) path(elements ...string) string {
	return filepath.Join(append([]string{d.root, ".demo"}, elements...)...)
}
