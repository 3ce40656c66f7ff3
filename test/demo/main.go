// Command demo plays Berth's main job on a local cluster: it builds a catalog, has the Operator
// Lifecycle Manager (OLM) install the EFS operator from it, installs the driver and shares a volume.
// The cluster stays up, to be looked at. `make demo` and `make demo-down` run it.
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
	"github.com/berth-csi/berth/test/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
)

const (
	driverName   = "efs"
	version      = "1.0.0"
	namespace    = cluster.OperatorNamespace
	catalogName  = "berth"
	catalogImage = "quay.io/berth-csi/berth"
	volumeName   = "website"
	controlPlane = "control plane: etcd, Kubernetes, OLM"
	// stepLimit bounds each step but the first, which compiles the control plane.
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
	root, err := tools.Root()
	if err != nil {
		return err
	}
	d := &demo{root: root, narrator: newNarrator(os.Stdout)}
	switch strings.Join(args, " ") {
	case "up":
		return d.up(ctx)
	case "down":
		return d.down(ctx)
	case "tools":
		return d.narrator.step(controlPlane, func() (string, error) {
			_, err := tools.Ensure(ctx, d.narrator.progress)
			return "built", err
		})
	}
	return fmt.Errorf("want one argument, \"up\", \"down\" or \"tools\"; got %q", args)
}

type demo struct {
	root     string
	narrator *narrator
	driver   drivers.Driver
	cluster  *cluster.Cluster
}

func (d *demo) up(ctx context.Context) (err error) {
	if d.driver, err = registry.Get(driverName); err != nil {
		return err
	}
	for _, s := range []struct {
		what  string
		limit time.Duration
		do    func(context.Context) (string, error)
	}{
		{controlPlane, time.Hour, d.buildControlPlane},
		{"berth and berth-operator", 30 * time.Minute, d.buildCommands},
		{"local cluster", stepLimit, d.startCluster},
		{"bundle", stepLimit, d.generateBundle},
		{"catalog", stepLimit, d.buildCatalog},
		{"catalog source", stepLimit, d.serveCatalog},
		{"subscription", stepLimit, d.subscribe},
		{"driver", stepLimit, d.installDriver},
		{"shared volume", stepLimit, d.share},
	} {
		stepContext, cancel := context.WithTimeout(ctx, s.limit)
		err := d.narrator.step(s.what, func() (string, error) { return s.do(stepContext) })
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	d.farewell()
	return nil
}

func (d *demo) buildControlPlane(ctx context.Context) (string, error) {
	built, err := tools.Ensure(ctx, d.narrator.progress)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(d.path(), 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(built.Path("kubectl"), d.path("kubectl")); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return "built", nil
}

func (d *demo) buildCommands(ctx context.Context) (string, error) {
	return "built", tools.Build(ctx, d.path("bin"), "./cmd/berth", "./cmd/berth-operator")
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
			repository(d.driver.Operator.Image): d.path("bin", "berth-operator"),
			catalogImage:                        d.path("bin", "berth"),
		},
	}, d.narrator.progress)
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
	return d.narrator.step("local cluster", func() (string, error) {
		err := cluster.Stop(ctx, d.path("cluster"))
		if errors.Is(err, cluster.ErrNotRunning) {
			return "was not up", os.RemoveAll(d.path())
		}
		if err != nil {
			return "", err
		}
		return "is down", os.RemoveAll(d.path())
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

// repository returns an image's pull spec without its tag.
func repository(image string) string {
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}
