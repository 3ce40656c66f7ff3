package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/migrate/subscription"
)

// journalFlags select the cluster, and the namespace of the journals in it.
type journalFlags struct {
	clusterFlags
	journals string
}

func (f *journalFlags) add(cmd *cobra.Command) {
	f.clusterFlags.add(cmd)
	f.addJournals(cmd)
}

func (f *journalFlags) addJournals(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.journals, "journal-namespace", migrate.DefaultJournalNamespace,
		"`namespace` of the journals; only cluster administrators may be allowed to write ConfigMaps there")
	completeFlag(cmd, "journal-namespace", f.completeNamespace)
}

// connect returns a client of the cluster. It prints warnings to standard error, each once.
func (f *journalFlags) connect(cmd *cobra.Command) (migrate.Cluster, error) {
	config, err := f.limited()
	if err != nil {
		return migrate.Cluster{}, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{adoption.AddToScheme, configv1.Install} { // not every migration needs both
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

// onCluster returns a command's function that connects to the cluster and calls run.
func (f *journalFlags) onCluster(run func(*cobra.Command, []string, migrate.Cluster) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cluster, err := f.connect(cmd)
		if err != nil {
			return err
		}
		return run(cmd, args, cluster)
	}
}

// runFlags limit how long a command runs.
type runFlags struct {
	timeout time.Duration
	wait    bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	f.addTimeout(cmd, 10*time.Minute)
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait for OLM and other controllers; if false, exit at the first wait")
}

// addTimeout adds only --timeout, for commands that always wait.
func (f *runFlags) addTimeout(cmd *cobra.Command, timeout time.Duration) {
	cmd.Flags().DurationVar(&f.timeout, "timeout", timeout, "`DURATION` how long to run; the same command continues later; 0 means no limit")
}

// limit returns a context with the timeout.
func (f *runFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.timeout)
}

// finish prints the result of a run, or returns an error with advice. done is the message for success. status is the command that shows the
// progress of the migration, or "" if it has not been started.
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
		return fmt.Errorf("%w; %s", errInterrupted, next)
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

// showPlan writes a plan to standard output. The command fails if the plan is not safe.
func showPlan[P plan](cmd *cobra.Command, output string, p P, err error) error {
	if err == nil {
		err = migrate.Write(cmd.OutOrStdout(), output, p, palette(cmd.OutOrStdout()))
	}
	switch {
	case err != nil:
		return err
	case !p.GetOutline().Safe:
		return &exitError{code: exitFound}
	}
	return nil
}

// plan is a plan that can be shown.
type plan interface {
	migrate.Plan
	migrate.Report
}

// readPlan returns the plan in a file, or in standard input if the file is "-".
func readPlan[P migrate.Plan](e migrate.Engine[P], file string, stdin io.Reader) (P, error) {
	from, reader := "standard input", stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return e.New(), err
		}
		defer opened.Close()
		from, reader = file, opened
	}
	p, err := e.Read(reader)
	if err != nil {
		return p, fmt.Errorf("%s: %w", from, err)
	}
	return p, nil
}

// applyFlags hold the flags that say how a plan is applied.
type applyFlags struct {
	run    runFlags
	file   string
	dryRun bool
}

func (f *applyFlags) add(cmd *cobra.Command, name string) {
	f.run.add(cmd)
	cmd.Flags().StringVarP(&f.file, "filename", "f", "", fmt.Sprintf("`file` with a plan that \"berth %s plan -o json\" has written, or - for standard input", name))
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan, send the first write to the API server as a dry run, and change nothing")
}

// applyPlan applies the plan in the file of --filename or, without that flag, the plan for the requested migration. of returns the request
// that a plan was made for, and done describes the result.
func applyPlan[P plan](cmd *cobra.Command, e migrate.Engine[P], at journalFlags, f applyFlags, requested func() (migrate.Request[P], error),
	of func(P) (migrate.Request[P], error), done func(context.Context, migrate.Cluster, P) string) error {
	var given P
	var r migrate.Request[P]
	var err error
	if f.file == "" {
		r, err = requested()
	} else if given, err = readPlan(e, f.file, cmd.InOrStdin()); err == nil {
		r, err = of(given)
	}
	if err != nil {
		return err
	}
	cluster, err := at.connect(cmd)
	if err != nil {
		return err
	}
	return apply(cmd, e, cluster, f, func(ctx context.Context) (P, *migrate.Status[P], error) {
		if f.file == "" {
			return e.Ensure(ctx, cluster, r)
		}
		return e.EnsureGiven(ctx, cluster, r, given)
	}, done)
}

// apply carries out the plan that ensure returns. ensure also returns the status if the migration is resumed. done describes the result.
func apply[P plan](cmd *cobra.Command, e migrate.Engine[P], cluster migrate.Cluster, f applyFlags,
	ensure func(context.Context) (P, *migrate.Status[P], error), done func(context.Context, migrate.Cluster, P) string) error {
	ctx, cancel := f.run.limit(cmd.Context())
	defer cancel()
	stop := startProgress(cmd.ErrOrStderr(), "reading the cluster and its catalogs")
	p, resumed, err := ensure(ctx)
	stop()
	if err != nil {
		return finish(ctx, cmd, err, "", "")
	}
	if resumed != nil {
		printReport(cmd, resumed)
	}
	safe := p.GetOutline().Safe
	if !safe || f.dryRun {
		if err := migrate.Write(cmd.OutOrStdout(), "text", p, palette(cmd.OutOrStdout())); err != nil {
			return err
		}
	}
	if !safe {
		return &exitError{code: exitFound}
	}
	shown := newProgress(cmd)
	err = e.Apply(ctx, cluster, p, migrate.Options{DryRun: f.dryRun, NoWait: !f.run.wait, Report: shown.report})
	shown.end()
	message := ""
	switch {
	case f.dryRun:
		message = "dry run: the API server has accepted the first write, and nothing was changed"
	case err == nil:
		message = done(ctx, cluster, p)
	}
	return finish(ctx, cmd, err, message, e.Command(cluster, p, "status"))
}

// printReport writes a report to standard error line by line, because each message there is one line.
func printReport(cmd *cobra.Command, r migrate.Report) {
	for line := range strings.Lines(r.Text(findings.Plain)) {
		cmd.PrintErrln(strings.TrimSuffix(line, "\n"))
	}
}

// showStatus writes the status of a migration to standard output.
func showStatus[P plan](cmd *cobra.Command, e migrate.Engine[P], cluster migrate.Cluster, r migrate.Request[P], watch *watchFlag, output string) error {
	return showReport(cmd, watch, output, func(ctx context.Context) (migrate.Report, bool, error) {
		s, err := e.Status(ctx, cluster, r)
		if err != nil {
			return nil, false, err
		}
		return s, inProgress(s.Phase), nil
	})
}

// untilDone says, in the help of --watch, until when a migration is watched.
const untilDone = "no migration is in progress"

// inProgress reports whether a migration is being applied or rolled back, so that --watch goes on.
func inProgress(p migrate.Phase) bool { return p == migrate.Applying || p == migrate.RollingBack }

// showReport writes a report about a cluster to standard output. read returns the report, and whether --watch should wait for a change.
func showReport(cmd *cobra.Command, watch *watchFlag, output string, read func(context.Context) (r migrate.Report, awaited bool, err error)) error {
	return watch.run(cmd, func(w io.Writer) (bool, error) {
		stop := startProgress(cmd.ErrOrStderr(), "reading the cluster")
		r, awaited, err := read(cmd.Context())
		stop()
		if r == nil {
			return false, err
		}
		return awaited, cmp.Or(migrate.Write(w, output, r, palette(cmd.OutOrStdout())), err)
	})
}

// rollBack undoes a migration. done describes the result.
func rollBack[P plan](cmd *cobra.Command, e migrate.Engine[P], cluster migrate.Cluster, r migrate.Request[P], run runFlags, done func(P) string) error {
	ctx, cancel := run.limit(cmd.Context())
	defer cancel()
	stop := startProgress(cmd.ErrOrStderr(), "reading the cluster")
	s, err := e.Status(ctx, cluster, r)
	stop()
	if err != nil {
		return finish(ctx, cmd, err, "", "")
	}
	printReport(cmd, s)
	shown := newProgress(cmd)
	err = e.Rollback(ctx, cluster, s.Plan, migrate.Options{NoWait: !run.wait, Report: shown.report})
	shown.end()
	return finish(ctx, cmd, err, done(s.Plan), e.Command(cluster, s.Plan, "status"))
}
