package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
)

// exitTimeout is the exit code of a command that timed out, as that of timeout(1).
const exitTimeout = 124

// requestTimeout limits a single request to the API server.
const requestTimeout = 30 * time.Second

func newSwitchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Switch an operator to another catalog, such as from the community's to the certified one",
		Long: `Switch an operator that the Operator Lifecycle Manager (OLM) runs to another catalog. Its Subscription
is changed to that catalog, and OLM updates the operator from there. Volumes and the driver that serves
them are not affected.

"plan" predicts what will happen and changes nothing. "apply" carries out the plan, and resumes it after an
interruption. "status" shows how far it is. "rollback" undoes it, as long as OLM has not started to install.`,
		Example: `  berth switch plan aws-efs-operator --to certified-operators
  berth switch apply aws-efs-operator --to certified-operators --create-driver`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSwitchPlanCommand(), newSwitchApplyCommand(), newSwitchStatusCommand(), newSwitchRollbackCommand())
	return cmd
}

// journalFlags select the cluster, and the namespace of the journals in it.
type journalFlags struct {
	clusterFlags
	journals string
}

func (f *journalFlags) add(cmd *cobra.Command) {
	f.clusterFlags.add(cmd)
	cmd.Flags().StringVar(&f.journals, "journal-namespace", migrate.DefaultJournalNamespace,
		"`NAMESPACE` of the journals; only cluster administrators may be allowed to write ConfigMaps there")
}

// existing returns a request for the switch of a package that has been started.
func (f *journalFlags) existing(pkg string) subscription.Request {
	return subscription.Request{Package: pkg, Namespace: f.namespace}
}

// switchFlags describe a switch that may not have been started.
type switchFlags struct {
	journalFlags
	request subscription.Request
	to      string
}

func (f *switchFlags) add(cmd *cobra.Command) {
	f.journalFlags.add(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "`[NAMESPACE/]NAME` of the CatalogSource to switch to (default namespace: that of the present one)")
	cmd.Flags().StringVar(&f.request.Channel, "channel", "", "`CHANNEL` to subscribe to (default the present one, or else the package's default channel)")
	cmd.Flags().StringVar(&f.request.NewPackage, "new-package", "", "`NAME` of the package in the other catalog, if it differs")
	cmd.Flags().BoolVar(&f.request.CreateDriver, "create-driver", false, "create the driver's ClusterCSIDriver once the operator runs, so that it adopts the driver")
}

// complete takes the arguments into the request.
func (f *switchFlags) complete(pkg string) {
	f.request.Package, f.request.Namespace = pkg, f.namespace
	f.request.SourceNamespace, f.request.Source = "", f.to
	if namespace, name, both := strings.Cut(f.to, "/"); both {
		f.request.SourceNamespace, f.request.Source = namespace, name
	}
}

// checkArgs fails unless there is a package, and a catalog to switch it to.
func (f *switchFlags) checkArgs(cmd *cobra.Command, args []string) error {
	if f.to == "" && len(args) > 0 {
		return errors.New("--to is missing: want the name of the CatalogSource to switch to")
	}
	if len(args) != 1 {
		return fmt.Errorf("want the name of one package, as the Subscription has it in spec.name; got %d arguments", len(args))
	}
	return nil
}

// connect returns a client of the cluster. It prints warnings to standard error, each once.
func (f *journalFlags) connect(cmd *cobra.Command) (migrate.Cluster, error) {
	config, err := f.config()
	if err != nil {
		return migrate.Cluster{}, err
	}
	config.Timeout = requestTimeout
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, operatorv1.Install} {
		if err := add(scheme); err != nil {
			return migrate.Cluster{}, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	warned := map[string]bool{}
	warn := func(what string) {
		if !warned[what] {
			cmd.PrintErrln("berth: warning: " + what)
		}
		warned[what] = true
	}
	return migrate.Cluster{Config: config, Client: c, JournalNamespace: f.journals, Warn: warn}, err
}

// palette returns the colours of marks, which are for terminals only.
func palette(w io.Writer) migrate.Palette {
	if isTerminal(w) && os.Getenv("NO_COLOR") == "" {
		return migrate.Colours
	}
	return migrate.Plain
}

// runFlags limit how long a command runs.
type runFlags struct {
	timeout time.Duration
	wait    bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long to run; the same command continues later; 0 means no limit")
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait for OLM and the operator; if false, end where there is something to wait for")
}

// limit returns a context with the timeout.
func (f *runFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.timeout)
}

// finish turns the result of a run into that of the command. status is the command that shows how far the switch is,
// if it has been started.
func finish(ctx context.Context, cmd *cobra.Command, err error, done, status string) error {
	next := "run the same command to continue"
	if status != "" {
		next += fmt.Sprintf(", or `%s` to see how far it is", status)
	}
	switch {
	case err == nil:
		cmd.PrintErrln(done)
		return nil
	case errors.Is(err, migrate.ErrWaiting):
		cmd.PrintErrf("%v; %s\n", err, next)
		return nil
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; %s", next)
	case ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if timeout := (*migrate.TimeoutError)(nil); !errors.As(err, &timeout) {
		err = errors.New("timed out before anything was changed")
	}
	return &exitError{code: exitTimeout, err: fmt.Errorf("%w; %s", err, next)}
}

// progress prints the events of a run. On a terminal, an event that waits is replaced by the next one.
type progress struct {
	cmd   *cobra.Command
	began time.Time
	clear func()
}

func newProgress(cmd *cobra.Command) *progress {
	return &progress{cmd: cmd, began: time.Now(), clear: func() {}}
}

func (p *progress) report(e migrate.Event) {
	p.clear()
	p.clear = func() {}
	start := fmt.Sprintf("%6.1fs  %-*s  ", time.Since(p.began).Seconds(), len(subscription.RecreateSubscription), e.Step)
	switch {
	case e.Waits == "":
		p.cmd.PrintErrln(start + e.Does)
	case isTerminal(p.cmd.ErrOrStderr()):
		p.clear = startProgress(p.cmd.ErrOrStderr(), start+"waiting for "+e.Waits)
	default:
		p.cmd.PrintErrln(start + "waiting for " + e.Waits)
	}
}

func (p *progress) end() { p.clear() }
