package certification

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/drivers/images"
)

// Images of Kubernetes' tests. The last two only have to have a shell and the usual commands.
var testImages = []struct {
	repository string
	base       images.Base
	agnhost    bool
}{
	{"registry.k8s.io/e2e-test-images/agnhost", images.Debian, true},
	{"registry.k8s.io/e2e-test-images/busybox", images.BusyBox, false},
	{"registry.k8s.io/e2e-test-images/nginx", images.Debian, false},
	{"registry.k8s.io/e2e-test-images/glibc-dns-testing", images.Debian, false},
}

// Images returns archives of the images that the tests' pods have, by their repositories, and builds them first if the cache does not have
// them.
func Images(ctx context.Context) (map[string]string, error) {
	agnhost, err := tools.Agnhost(ctx, nil)
	if err != nil {
		return nil, err
	}
	archives := map[string]string{}
	for _, image := range testImages {
		program, entrypoint := "", ""
		if image.agnhost {
			program, entrypoint = agnhost, "/agnhost"
		}
		archive, err := images.Pack(ctx, nil, image.repository+":any", image.base, program, entrypoint)
		if err != nil {
			return nil, fmt.Errorf("pack the image %s: %w", image.repository, err)
		}
		archives[image.repository] = archive
	}
	return archives, nil
}

// Run is a run of the tests of one driver.
type Run struct {
	// Cluster has the driver.
	Cluster *cluster.Cluster
	// Folder has the driver's manifest, and gets the report.
	Folder, Manifest string
	CSIName          string
	// Processes run tests at the same time.
	Processes int
	// Limit is the time limit of all tests.
	Limit time.Duration
	// Focus matches the names of the tests to run, and Exclude the ones among them to leave out; "" for none.
	Focus, Exclude string
	// Log gets ginkgo's output.
	Log io.Writer
}

// reportFile is the name of ginkgo's report.
const reportFile = "report.json"

// Run runs the tests, and returns their outcomes, or an error and no outcomes.
func (r Run) Run(ctx context.Context) ([]Outcome, error) {
	suite, err := tools.E2E(ctx, nil)
	if err != nil {
		return nil, err
	}
	ginkgo, err := tools.Ginkgo(ctx, nil)
	if err != nil {
		return nil, err
	}
	args := []string{"--procs=" + strconv.Itoa(r.Processes), "--timeout=" + r.Limit.String(), "--focus=" + r.Focus,
		"--json-report=" + reportFile, "--output-dir=" + r.Folder, "--no-color", "--succinct"}
	if r.Exclude != "" {
		args = append(args, "--skip="+r.Exclude)
	}
	args = append(args, suite, "--",
		"--kubeconfig="+r.Cluster.Kubeconfig(), "--kubectl-path="+r.Cluster.Tools().Path("kubectl"), "--provider=skeleton",
		"--storage.testdriver="+filepath.Join(r.Folder, r.Manifest), "--repo-root="+r.Folder,
		// The real nodes are ready, and process nodes take no pods.
		"--allowed-not-ready-nodes=-1")
	tests := exec.CommandContext(ctx, ginkgo, args...)
	tests.Dir = r.Folder
	tests.Stdout, tests.Stderr = r.Log, r.Log
	tests.Cancel = func() error { return tests.Process.Signal(os.Interrupt) }
	runErr := tests.Run()
	report, err := os.Open(filepath.Join(r.Folder, reportFile))
	if err != nil {
		return nil, fmt.Errorf("ginkgo has written no report (%w): %w", runErr, err)
	}
	defer report.Close()
	return Read(report, r.CSIName)
}
