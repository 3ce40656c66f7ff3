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

	"github.com/berth-csi/berth/migrate/switchover"
)

// exitTimeout is the exit code of a command whose time ran out, as that of timeout(1).
const exitTimeout = 124

// requestTimeout is how long a single request may take.
const requestTimeout = 30 * time.Second

func newSwitchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Switch an operator to another catalog, such as from the community's to the certified one",
		Long: `Switch an operator that the Operator Lifecycle Manager (OLM) runs to another catalog. Its Subscription
is turned there, and OLM updates the operator from there. Volumes, the driver that serves them, and
whoever uses them notice nothing.

"plan" foretells all, and changes nothing. "apply" does it, and goes on where it was stopped, however
that came. "status" says how far it is, and "rollback" takes it back until OLM has begun to install.`,
		Example: `  berth switch plan aws-efs-operator --to certified-operators
  berth switch apply aws-efs-operator --to certified-operators --create-driver`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSwitchPlanCommand(), newSwitchApplyCommand(), newSwitchStatusCommand(), newSwitchRollbackCommand())
	return cmd
}

// journalFlags say which cluster is meant, and where it has journals of switches.
type journalFlags struct {
	clusterFlags
	journals string
}

// add gives a command the flags.
func (f *journalFlags) add(cmd *cobra.Command) {
	f.clusterFlags.add(cmd)
	cmd.Flags().StringVar(&f.journals, "journal-namespace", switchover.DefaultJournalNamespace,
		"`NAMESPACE` of the journals; nobody but cluster administrators may have the right to write ConfigMaps there")
}

// switchFlags say which switch is meant.
type switchFlags struct {
	journalFlags
	request switchover.Request
	to      string
}

// add gives a command the flags of a switch that may be yet to begin.
func (f *switchFlags) add(cmd *cobra.Command) {
	f.journalFlags.add(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "`[NAMESPACE/]NAME` of the CatalogSource to switch to (default namespace: that of the present one)")
	cmd.Flags().StringVar(&f.request.Channel, "channel", "", "`CHANNEL` to subscribe to (default the present one, or else the package's default channel)")
	cmd.Flags().StringVar(&f.request.NewPackage, "new-package", "", "`NAME` that the package has in the other catalog, if it is another one")
	cmd.Flags().BoolVar(&f.request.CreateDriver, "create-driver", false, "create the driver's ClusterCSIDriver when the operator runs, and have it take over the driver")
}

// complete takes the arguments into the request.
func (f *switchFlags) complete(pkg string) {
	f.request.Package, f.request.Namespace = pkg, f.namespace
	f.request.SourceNamespace, f.request.Source = "", f.to
	if namespace, name, both := strings.Cut(f.to, "/"); both {
		f.request.SourceNamespace, f.request.Source = namespace, name
	}
}

// checkArgs wants a package, and a catalog to switch it to.
func (f *switchFlags) checkArgs(cmd *cobra.Command, args []string) error {
	if f.to == "" && len(args) > 0 {
		return errors.New("--to is missing: want the name of the CatalogSource to switch to")
	}
	if len(args) != 1 {
		return fmt.Errorf("want the name of one package, such as aws-efs-operator; got %d arguments", len(args))
	}
	return nil
}

// connect returns a client of the cluster. What is ignored there, the command says on standard error.
func (f *journalFlags) connect(cmd *cobra.Command) (switchover.Cluster, error) {
	config, err := f.config()
	if err != nil {
		return switchover.Cluster{}, err
	}
	config.Timeout = requestTimeout
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, operatorv1.Install} {
		if err := add(scheme); err != nil {
			return switchover.Cluster{}, err
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
	return switchover.Cluster{Config: config, Client: c, JournalNamespace: f.journals, Warn: warn}, err
}

// palette are the colours of marks on standard output.
func palette(cmd *cobra.Command) switchover.Palette { return paletteOf(cmd.OutOrStdout()) }

// paletteOf are the colours of marks on a terminal, if they are wanted there.
func paletteOf(w io.Writer) switchover.Palette {
	if isTerminal(w) && os.Getenv("NO_COLOR") == "" {
		return switchover.Colours
	}
	return switchover.Plain
}

// runFlags say how to carry out a switch.
type runFlags struct {
	timeout time.Duration
	wait    bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long to go on; what is left to do then is done by the same command later; 0 for ever")
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait for what others do; without it, end where there is something to wait for")
}

// limit ends a context when time runs out.
func (f *runFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.timeout)
}

// goesOn is what helps whoever did not see a switch to its end.
const goesOn = "the same command goes on from here, and `berth switch status` says how far it is"

// ended turns the end of a run within a context into that of the command.
func ended(ctx context.Context, cmd *cobra.Command, err error, done string) error {
	switch {
	case err == nil:
		cmd.PrintErrln(done)
		return nil
	case errors.Is(err, switchover.ErrWaiting):
		cmd.PrintErrf("%v; %s\n", err, goesOn)
		return nil
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; %s", goesOn)
	case ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if timeout := (*switchover.TimeoutError)(nil); !errors.As(err, &timeout) {
		err = errors.New("time ran out before anything was done")
	}
	return &exitError{code: exitTimeout, err: fmt.Errorf("%w; %s", err, goesOn)}
}

// narration tells a person what is done and what is waited for: on a terminal the latter comes and goes.
type narration struct {
	cmd   *cobra.Command
	plan  *switchover.Plan
	began time.Time
	clear func()
}

func narrate(cmd *cobra.Command, p *switchover.Plan) *narration {
	return &narration{cmd: cmd, plan: p, began: time.Now(), clear: func() {}}
}

func (n *narration) report(e switchover.Event) {
	n.clear()
	n.clear = func() {}
	now := fmt.Sprintf("%6.1fs  %-9s ", time.Since(n.began).Seconds(), e.Step)
	switch {
	case e.Waits == "":
		n.cmd.PrintErrln(now + n.plan.Does(e.Step))
	case isTerminal(n.cmd.ErrOrStderr()):
		n.clear = startProgress(n.cmd.ErrOrStderr(), now+"waiting for "+e.Waits)
	default:
		n.cmd.PrintErrln(now + "waiting for " + e.Waits)
	}
}

func (n *narration) end() { n.clear() }
