package switchover

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/olm/installplan"
)

// pause is how long Apply and Rollback wait before they look again.
const pause = 500 * time.Millisecond

// Options say how to carry out a plan.
type Options struct {
	// DryRun has the API server check what is written first, and write nothing.
	DryRun bool
	// NoWait ends where there is nothing to do but to wait.
	NoWait bool
	// Report is told what is done and what is waited for, each thing once.
	Report func(Event)
}

// Event is something that is done, or waited for.
type Event struct {
	Step StepName
	// Waits says what for. It is empty if the step is taken.
	Waits string
}

// ErrWaiting says that there is nothing to do but to wait, with the option NoWait.
var ErrWaiting = errors.New("there is nothing to do now but to wait")

// TimeoutError says that time ran out.
type TimeoutError struct {
	// Waited says what for.
	Waited string
	cause  error
}

func (e *TimeoutError) Error() string { return "time ran out while waiting for " + e.Waited }
func (e *TimeoutError) Unwrap() error { return e.cause }

// Apply carries a plan out, from wherever it is, until all is done or the context ends. It is told apart in the
// error whether time ran out (TimeoutError). Each write is made only if what it changes is as it was seen.
func Apply(ctx context.Context, cluster Cluster, p *Plan, o Options) error {
	return run(ctx, cluster, p, o, (*situation).decide)
}

// run looks, decides, writes and looks again.
func run(ctx context.Context, cluster Cluster, p *Plan, o Options, decide func(*situation) (decision, error)) error {
	told := Event{}
	tell := func(e Event) {
		if e != told {
			o.Report(e)
		}
		told = e
	}
	for {
		seen, err := look(ctx, cluster, p)
		if err == nil {
			var next decision
			if next, err = decide(seen); err != nil || next.step == "" {
				return err
			}
			tell(Event{next.step, next.waits})
			if next.waits == "" {
				if err = seen.take(ctx, cluster, next.step, o); err == nil && o.DryRun {
					return nil
				}
			} else if o.NoWait {
				return fmt.Errorf("%w for %s", ErrWaiting, next.waits)
			}
			if next.waits == "" && err == nil {
				continue
			}
			if overtaken(err) {
				err = nil // what there is now is looked at after a pause
			} else if err != nil {
				err = fmt.Errorf("step %s: %w", next.step, err)
			}
		}
		if err != nil && ctx.Err() == nil {
			if !passing(err) {
				return err
			}
			tell(Event{told.Step, "the API server, which did not answer as it should: " + err.Error()})
		}
		select {
		case <-ctx.Done():
			return ending(ctx, told)
		case <-time.After(pause):
		}
	}
}

// overtaken tells whether a write failed because what it changes was not as it was seen.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// passing tells whether an error is one of the way to the API server, or of its own, that time may heal.
func passing(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) ||
		utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// ending is the error for a context that has ended: a TimeoutError if its time ran out.
func ending(ctx context.Context, last Event) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	waited := cmp.Or(last.Waits, "the API server")
	if last.Waits == "" && last.Step != "" {
		waited = fmt.Sprintf("step %s to take effect", last.Step)
	}
	return &TimeoutError{Waited: waited, cause: ctx.Err()}
}

// take writes what a step is about. Before it does, it says so in the journal.
func (s *situation) take(ctx context.Context, cluster Cluster, step StepName, o Options) error {
	if o.DryRun {
		cluster.Client = client.NewDryRunClient(cluster.Client)
	}
	c := cluster.Client
	switch step {
	case Record:
		return cluster.begin(ctx, s.journal, s.plan)
	case Finish:
		return s.journal.note(ctx, c, Finish, Completed)
	case Begin:
		return s.journal.note(ctx, c, Begin, RollingBack)
	case End:
		return s.journal.note(ctx, c, End, RolledBack)
	case Settle:
		return s.journal.note(ctx, c, Settle, s.journal.State)
	}
	if s.journal.last() != step { // or else another has begun with it, and was stopped
		if err := s.journal.note(ctx, c, step, s.journal.State); err != nil {
			return err
		}
	}
	return writes[step](s, ctx, c)
}

// writes are what steps write, beside the journal.
var writes = map[StepName]func(*situation, context.Context, client.Client) error{
	Hold: func(s *situation, ctx context.Context, c client.Client) error {
		return s.changeSubscription(ctx, c, func(spec *v1alpha1.SubscriptionSpec) { spec.InstallPlanApproval = v1alpha1.ApprovalManual })
	},
	Turn: func(s *situation, ctx context.Context, c client.Client) error {
		if s.plan.Way == Update {
			if err := noticed(ctx); err != nil {
				return err
			}
		}
		return s.changeSubscription(ctx, c, s.plan.To.choose)
	},
	Release: func(s *situation, ctx context.Context, c client.Client) error {
		return s.changeSubscription(ctx, c, s.approveAsBefore)
	},
	Restore: func(s *situation, ctx context.Context, c client.Client) error {
		return s.changeSubscription(ctx, c, s.plan.From.choose, s.approveAsBefore)
	},
	Remove:   (*situation).remove,
	Renew:    (*situation).renew,
	Unblock:  (*situation).unblock,
	Approve:  (*situation).approve,
	Withdraw: (*situation).withdraw,
	Create:   (*situation).createDriver,
}

func (s *situation) approveAsBefore(spec *v1alpha1.SubscriptionSpec) {
	spec.InstallPlanApproval = v1alpha1.Approval(s.plan.Subscription.Approval)
}

// noticed gives OLM the time to notice that it has to ask for approval. It shows nowhere whether it has: it reads
// that before it reads what to install, so that of two changes made at once it may see but the latter.
func noticed(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3 * time.Second):
		return nil
	}
}

// changeSubscription changes the spec of the Subscription as it was seen.
func (s *situation) changeSubscription(ctx context.Context, c client.Client, changes ...func(*v1alpha1.SubscriptionSpec)) error {
	changed := s.subscription.DeepCopy()
	for _, change := range changes {
		change(changed.Spec)
	}
	return c.Patch(ctx, changed, client.MergeFromWithOptions(s.subscription, client.MergeFromWithOptimisticLock{}))
}

// remove deletes the Subscription, and once that is gone the ClusterServiceVersion, which is what removes an operator
// of OLM. Its CustomResourceDefinitions stay. If OLM installs it once more afterwards, it is deleted once more.
func (s *situation) remove(ctx context.Context, c client.Client) error {
	if s.subscription != nil && s.subscription.UID == s.plan.Subscription.UID {
		return c.Delete(ctx, s.subscription, asSeen(s.subscription))
	}
	installed := s.version(s.plan.Installed)
	return c.Delete(ctx, installed, client.Preconditions{UID: &installed.UID})
}

// asSeen allows a deletion only if the object is as it was seen.
func asSeen(object client.Object) client.Preconditions {
	uid, revision := object.GetUID(), object.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &revision}
}

// renew makes the Subscription anew, or writes down which it is if it is there. Somebody else may make one of that name
// meanwhile: a nonce, which is in the journal before it is in the Subscription, tells which is ours.
func (s *situation) renew(ctx context.Context, c client.Client) error {
	if made := s.subscription; made != nil {
		return s.journal.write(ctx, c, func(data map[string]string) { data[uidKey] = string(made.UID) })
	}
	if s.journal.renewal.nonce == "" || s.renewed() { // what was made before is gone, and its nonce known to whoever has read it
		nonce := newNonce()
		if err := s.journal.write(ctx, c, func(data map[string]string) {
			data[nonceKey] = nonce
			delete(data, uidKey)
		}); err != nil {
			return err
		}
	}
	return c.Create(ctx, &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.plan.Subscription.Namespace, Name: s.plan.Subscription.Name,
			Annotations: map[string]string{renewalAnnotation: s.journal.renewal.nonce},
		},
		Spec: s.plan.renewedSpec(),
	})
}

// nonceLength is how many digits a nonce has.
const nonceLength = 32

func newNonce() string {
	bytes := make([]byte, nonceLength/2)
	_, _ = rand.Read(bytes) // which never fails
	return hex.EncodeToString(bytes)
}

func (s *situation) unblock(ctx context.Context, c client.Client) error {
	changed := s.subscription.DeepCopy()
	installplan.Reset(changed)
	changed.Status.LastUpdated = metav1.Now()
	return c.Status().Patch(ctx, changed, client.MergeFromWithOptions(s.subscription, client.MergeFromWithOptimisticLock{}))
}

func (s *situation) approve(ctx context.Context, c client.Client) error {
	request := s.request()
	changed := request.DeepCopy()
	changed.Spec.Approved = true
	return c.Patch(ctx, changed, client.MergeFromWithOptions(request, client.MergeFromWithOptimisticLock{}))
}

// withdraw deletes an InstallPlan that installs nothing: while there is one, OLM does not look at the catalog.
func (s *situation) withdraw(ctx context.Context, c client.Client) error {
	idle := s.idle()
	return c.Delete(ctx, idle, asSeen(idle))
}

func (s *situation) createDriver(ctx context.Context, c client.Client) error {
	return c.Create(ctx, &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: s.plan.Driver.Name},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	})
}

// New makes a plan from what a cluster shows. It writes nothing to the cluster. A switch that is under way has
// its plan, which is an error.
func New(ctx context.Context, cluster Cluster, r Request) (*Plan, error) {
	under, err := cluster.underWay(ctx, r.Namespace, r.Package)
	if err != nil {
		return nil, err
	}
	if under != nil {
		return nil, under.Plan.begun()
	}
	return fresh(ctx, cluster, r)
}

// underWay returns the journal of the switch that is under way, or nil.
func (c Cluster) underWay(ctx context.Context, namespace, pkg string) (*Journal, error) {
	found, err := c.findJournals(ctx, namespace, pkg)
	if err != nil {
		return nil, err
	}
	return only(slices.DeleteFunc(found, func(j *Journal) bool { return !j.open() }), pkg)
}

// only returns the journal of a package, or nil. It fails if there are several.
func only(found []*Journal, pkg string) (*Journal, error) {
	if len(found) == 0 {
		return nil, nil
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var names []string
	for _, j := range found {
		names = append(names, j.Plan.Subscription.String())
	}
	return nil, fmt.Errorf("%d switches of package %s may be meant, of Subscriptions %s; say with --namespace in which namespace that one is", len(found), pkg, strings.Join(names, ", "))
}

// begun is the error for a switch that is to begin while this one is under way.
func (p *Plan) begun() error {
	return fmt.Errorf("Subscription %s is being switched to %s already: see how far that is with `%s`, and go on with `%s`, or back with `%s`",
		p.Subscription, p.To, p.command("status"), p.command("apply"), p.command("rollback"))
}

// fresh makes a plan, unless a switch of the Subscription is under way.
func fresh(ctx context.Context, cluster Cluster, r Request) (*Plan, error) {
	seen, err := Look(ctx, cluster, r)
	if err != nil {
		return nil, err
	}
	p, err := seen.Make(ctx, r)
	if err != nil {
		return nil, err
	}
	earlier, err := cluster.journalOf(ctx, p.Subscription) // one that cannot be read is not written over
	if err != nil {
		return nil, err
	}
	if earlier.open() {
		return nil, earlier.Plan.begun()
	}
	return p, nil
}

// Ensure returns the plan that is to be carried out: that of a switch under way, if there is one, with how far that
// is, or else a new one. It fails if the one under way is not what is asked for, or the new one is not the given
// one, which may be nil.
func Ensure(ctx context.Context, cluster Cluster, r Request, given *Plan) (*Plan, *Status, error) {
	under, err := cluster.underWay(ctx, r.Namespace, r.Package)
	if err != nil {
		return nil, nil, err
	}
	if under != nil {
		if err := under.suits(r, given); err != nil {
			return nil, nil, err
		}
		status, err := under.status(ctx, cluster)
		return under.Plan, status, err
	}
	if done, err := cluster.completed(ctx, given); err != nil || done != nil {
		return done, nil, err
	}
	now, err := fresh(ctx, cluster, r)
	if err != nil {
		return nil, nil, err
	}
	if given != nil {
		if moved := given.moved(now); len(moved) > 0 {
			return nil, nil, fmt.Errorf("the cluster is not as it was when the plan was made: %s; make a new plan", strings.Join(moved, "; "))
		}
	}
	return now, nil, nil
}

// suits fails if a switch under way is not what is asked for.
func (j *Journal) suits(r Request, given *Plan) error {
	var differs error
	if given == nil {
		differs = r.differs(j.Plan)
	} else if moved := j.Plan.moved(given); len(moved) > 0 {
		differs = errors.New(strings.Join(moved, "; "))
	}
	if differs != nil {
		return fmt.Errorf("%w; this is not what is asked for:\n%w", j.Plan.begun(), differs)
	}
	return nil
}

// completed returns the plan of a journal that is the given one, which may be nil, if that has been carried out and
// nothing is left to write.
func (c Cluster) completed(ctx context.Context, given *Plan) (*Plan, error) {
	if given == nil {
		return nil, nil
	}
	j, err := c.journalOf(ctx, given.Subscription)
	if err != nil || j == nil || j.State != Completed || len(j.Plan.moved(given)) > 0 {
		return nil, err
	}
	seen, err := look(ctx, c, j.Plan)
	if err != nil {
		return nil, err
	}
	if next, err := seen.decide(); err != nil || next.step != "" && next.waits == "" {
		return nil, nil
	}
	return j.Plan, nil
}
