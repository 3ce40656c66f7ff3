package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/node"
	"github.com/berth-csi/berth/lab/progress"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
)

const (
	driverName   = "efs"
	version      = "1.0.0"
	namespace    = cluster.OperatorNamespace
	catalogImage = "quay.io/berth-csi/berth"
	// stageLimit is the time limit of each stage.
	stageLimit = 2 * time.Minute
)

// demo is a demonstration: a folder, and the cluster in it.
type demo struct {
	name    string // an argument of this program
	root    string // of the repository
	home    string // the folder of all demonstrations, with the programs
	folder  string // of this demonstration
	printer *progress.Printer
	driver  drivers.Driver
	cluster *cluster.Cluster
	// env are further variables for commands that are shown.
	env []string
	// archives are the images of the driver, if it really runs.
	archives map[string]string
}

// connection returns the connection with which migrations read the cluster.
func (s *demo) connection() migrate.Cluster {
	return migrate.Cluster{Config: s.cluster.Config(), Client: s.cluster.Client()}
}

// stage is a part of a demonstration. do returns a description of its result.
type stage struct {
	what string
	do   func(context.Context) (string, error)
}

// run runs stages one after the other.
func (s *demo) run(ctx context.Context, stages ...stage) error {
	for _, stage := range stages {
		stageContext, cancel := context.WithTimeout(ctx, stageLimit)
		err := s.printer.Stage(stage.what, func() (string, error) { return stage.do(stageContext) })
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", stage.what, err)
		}
	}
	return nil
}

func (s *demo) startCluster(ctx context.Context) (string, error) {
	running, err := cluster.Find(clusterFolder(s.folder))
	if err == nil {
		s.cluster = running
		return upAlready(running), nil
	}
	if !errors.Is(err, cluster.ErrNotRunning) {
		return "", err
	}
	options := cluster.Options{
		OLM: true,
		Images: map[string]string{
			node.ImageRepository(s.driver.Operator.Image): s.program("berth-operator"),
			catalogImage: s.program("berth"),
		},
	}
	if s.archives != nil {
		options.RealNodes, options.ImageArchives = len(testbed.Nodes), s.archives
		options.Images[journey.UserImage] = s.program("user")
		options.Images[community.OperatorImage] = s.program("aws-efs-operator")
	}
	s.cluster, err = cluster.Up(ctx, clusterFolder(s.folder), options, s.printer.Progress)
	return "is up", err
}

func (s *demo) generateBundle(ctx context.Context) (string, error) {
	return s.berth(ctx, "bundle", "generate", driverName, "--version", version, "--output-dir", s.path("bundle"))
}

// buildCatalog builds a catalog from a bundle.
func (s *demo) buildCatalog(bundle, catalog string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return s.berth(ctx, "catalog", "build", bundle, "--output-dir", s.path(catalog))
	}
}

// serveCatalog serves a catalog to OLM.
func (s *demo) serveCatalog(name, catalog string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		err := journey.ServeCatalog(ctx, s.cluster.Client(), journey.Catalog{
			Name: name, Folder: s.path(catalog), Port: journey.CatalogPort, Image: catalogImage + ":demo",
			Args: []string{"catalog", "serve", journey.CatalogFolder, fmt.Sprintf("--address=$(POD_IP):%d", journey.CatalogPort)},
		})
		return fmt.Sprintf("OLM reads CatalogSource %s", name), err
	}
}

// subscribe makes OLM install the operator, or its predecessor, from a catalog.
func (s *demo) subscribe(catalog string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		csv, err := journey.Subscribe(ctx, s.cluster.Client(), &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Name: s.driver.Package.Name, Namespace: namespace},
			Spec: &v1alpha1.SubscriptionSpec{
				CatalogSource: catalog, CatalogSourceNamespace: cluster.CatalogNamespace,
				Package: s.driver.Package.Name, Channel: s.driver.Package.Channel,
			},
		})
		return fmt.Sprintf("OLM installed %s, its operator runs", csv), err
	}
}

// berth runs a command of berth, and returns the command line as the stage's result.
func (s *demo) berth(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, s.program("berth"), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	shown := make([]string, len(args))
	for i, arg := range args {
		if relative, err := filepath.Rel(s.root, arg); err == nil && filepath.IsAbs(arg) {
			arg = relative
		}
		shown[i] = arg
	}
	return "berth " + strings.Join(shown, " "), nil
}

// show prints a kubectl command, runs it, and prints its output.
func (s *demo) show(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stageLimit)
	defer cancel()
	fmt.Printf("\n$ kubectl %s\n", strings.Join(args, " "))
	cmd := s.cluster.Kubectl(ctx, args...)
	cmd.Env = append(cmd.Env, "PATH="+s.home+string(filepath.ListSeparator)+os.Getenv("PATH")) // for the plugin
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it leaves the cursor on a new line
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// exec runs a command in a pod of the team, and returns its output.
func (s *demo) exec(ctx context.Context, pod string, command ...string) (string, error) {
	output, err := s.cluster.Kubectl(ctx, append([]string{"--namespace", team, "exec", pod, "--"}, command...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%q in pod %s: %w\n%s", command, pod, err, output)
	}
	return string(output), nil
}

// userProgram is the only program in the pods: they have no shell.
const userProgram = "/usr/bin/user"

// readFrom returns the command that reads the file of a pod.
func readFrom(writer string) []string { return []string{userProgram, "read", fileOf(writer)} }

func fileOf(writer string) string { return journey.DataFolder + "/from-" + writer }

// kubectl returns the path of kubectl from the root of the repository.
func (s *demo) kubectl() string { return filepath.Base(s.home) + "/kubectl" }

// upAlready says that a cluster is up, and whether another version of the project may have made it.
func upAlready(c *cluster.Cluster) string {
	if c.Outdated() {
		return "is up already, made by an earlier build: 'make demo-down' ends it if it does not fit"
	}
	return "is up already"
}

// farewell prints an introduction, settings of a shell in the root of the repository, and commands that need them. The last
// command is berth doctor.
func (s *demo) farewell(introduction string, settings string, commands ...string) {
	fmt.Printf("\n%s\n\n  export KUBECONFIG=%s%s\n\n", introduction, quoted(s.cluster.Kubeconfig()), settings)
	for _, line := range append(commands, filepath.Base(s.home)+"/bin/berth doctor") {
		fmt.Printf("  %s\n", line)
	}
}

// staysUp introduces the commands of a farewell.
const staysUp = "The cluster stays up until 'make demo-down'. To look at it:"

// plain matches words that need no quotes in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// quoted quotes a word for a shell if need be.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// unquoted returns the word that quoted was given.
func unquoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(word, "'"), "'"), `'\''`, "'")
}

// onPath returns a setting for commands in a farewell: the shell finds the programs of a folder first.
func (s *demo) onPath(folder string) string { return " PATH=" + quoted(folder) + ":$PATH" }

// path returns a path in the folder of the demonstration.
func (s *demo) path(elements ...string) string {
	return filepath.Join(append([]string{s.folder}, elements...)...)
}

// program returns the path of one of the project's programs.
func (s *demo) program(name string) string { return filepath.Join(s.home, "bin", name) }

// clusterFolder returns the folder of a demonstration's cluster.
func clusterFolder(play string) string { return filepath.Join(play, "cluster") }
