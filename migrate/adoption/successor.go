package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
)

// AddToScheme adds all kinds of objects that an adoption reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorv1.Install} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// requestTimeout limits a single request of the cluster storage operator. A request that is never answered would block all drivers.
const requestTimeout = 30 * time.Second

// NewSuccessor returns the function by which the cluster storage operator hands drivers over to itself. Each call makes at most one step,
// and never waits. It continues a hand-over from the journal, no matter who began it. With begin, it starts a hand-over if no check
// refuses, unless an administrator has rolled the hand-over back.
func NewSuccessor(config *rest.Config) (func(ctx context.Context, d drivers.Driver, begin bool) (predecessor.Handover, error), error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 20, 40 // for each kind of object: an observation reads several objects of some kinds
	config.Timeout = requestTimeout
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	cluster := migrate.Cluster{Config: config, Client: c}
	return func(ctx context.Context, d drivers.Driver, begin bool) (predecessor.Handover, error) {
		return handOver(ctx, cluster, d, begin)
	}, nil
}

func handOver(ctx context.Context, cluster migrate.Cluster, d drivers.Driver, begin bool) (predecessor.Handover, error) {
	none := predecessor.Handover{}
	j, err := Adopt.ReadJournal(ctx, cluster, migrate.Subject{Name: d.CSIName})
	switch {
	case err != nil:
		return none, err
	case j.IsOpen():
		return advance(ctx, cluster, j.Plan.(*Plan), j)
	case !begin:
		return none, nil
	case j.Phase == migrate.RolledBack:
		return predecessor.Handover{Stage: predecessor.Declined,
			Message: fmt.Sprintf("an administrator has rolled the hand-over back: begin it again with `%s`", j.Command(j.Plan, "apply"))}, nil
	}
	p, err := Adopt.NewPlan(ctx, cluster, Request{Driver: d, bySuccessor: true})
	switch {
	case err != nil:
		return none, err
	case !p.Safe:
		return refusal(p.Checks), nil
	case p.Operator == nil: // the operator that the caller has seen is gone
		return none, nil
	}
	return advance(ctx, cluster, p, j)
}

// advance executes the next step of a plan. It returns errors of requests as errors, and errors that somebody must solve as a Handover.
func advance(ctx context.Context, cluster migrate.Cluster, p *Plan, j *migrate.Journal) (predecessor.Handover, error) {
	if j.Phase == migrate.RollingBack {
		return predecessor.Handover{Stage: predecessor.Declined,
			Message: fmt.Sprintf("an administrator rolls the hand-over back: finish that with `%s`", j.Command(p, "rollback"))}, nil
	}
	if isOfExtension(p) {
		return followExtension(ctx, cluster, p, j)
	}
	event, err := Adopt.Advance(ctx, cluster, p)
	if stuck := (*migrate.StuckError)(nil); errors.As(err, &stuck) {
		return predecessor.Handover{Stage: predecessor.Stuck, Message: stuck.Error()}, nil
	}
	if err != nil {
		return predecessor.Handover{}, err
	}
	h := predecessor.Handover{Stage: predecessor.Removing, Message: event.Does, Again: event.Waits == ""}
	switch event.Step {
	case "":
		return predecessor.Handover{}, nil
	case AwaitOperator, AwaitDriver, migrate.Complete:
		h.Stage = predecessor.Removed
	}
	if event.Waits != "" {
		h.Message = "waiting for " + event.Waits
	}
	return h, nil
}

// followExtension returns the progress of an administrator who hands over an operator of OLM v1. For the cluster storage operator, the
// hand-over ends when no operator has permissions from OLM any more.
func followExtension(ctx context.Context, cluster migrate.Cluster, p *Plan, j *migrate.Journal) (predecessor.Handover, error) {
	d, err := p.definition()
	if err != nil {
		return predecessor.Handover{}, err
	}
	proven, _, err := readBindings(ctx, cluster.Client, d)
	if err != nil || len(proven) == 0 {
		return predecessor.Handover{}, err
	}
	return predecessor.Handover{Stage: predecessor.Declined,
		Message: fmt.Sprintf("an administrator hands ClusterExtension %s over: continue that with `%s`", p.Operator.Extension.Name, j.Command(p, "resume"))}, nil
}

// decisions are the checks that fail because an administrator wants it that way.
var decisions = []string{managementState, clusterExtension}

// refusal returns the failed checks with their solutions.
func refusal(checks migrate.Checks) predecessor.Handover {
	h := predecessor.Handover{Stage: predecessor.Refused}
	var lines []string
	for _, c := range checks {
		if c.Verdict != findings.Refused {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", c.What, c.Do))
		if slices.Contains(decisions, c.Code) {
			h.Stage = predecessor.Declined
		}
	}
	h.Message = strings.Join(lines, "; ")
	return h
}
