package clusterstorage

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/config/leaderelection"
	"k8s.io/client-go/rest"
	clientleader "k8s.io/client-go/tools/leaderelection"
)

// lock is the name of the Lease that the active operator holds. OpenShift's cluster storage operator holds the same Lease.
const lock = Name + "-lock"

// errLost says that the operator must stop, because another one may have started.
var errLost = errors.New("the Lease " + lock + " was lost: another cluster storage operator may be active")

// RunAsLeader runs a function once this process holds the Lease in a namespace, and releases the Lease when the
// function has returned. It returns the function's error, or errLost if the Lease is lost.
func RunAsLeader(ctx context.Context, cfg *rest.Config, namespace string, run func(context.Context) error) error {
	defaults := leaderelection.LeaderElectionDefaulting(configv1.LeaderElection{}, namespace, lock)
	config, err := leaderelection.ToLeaderElectionWithLease(cfg, defaults, Name, "")
	if err != nil {
		return fmt.Errorf("preparing the Lease %s/%s: %w", namespace, lock, err)
	}
	// The election ends after the function. Otherwise a second operator could start while the function still runs.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	led := make(chan error, 1)
	config.Callbacks = clientleader.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			defer release()
			leading, cancel := context.WithCancel(leading)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			err := run(leading)
			if err == nil && ctx.Err() == nil {
				err = errLost
			}
			led <- err
		},
		OnStoppedLeading: func() {},
	}
	elector, err := clientleader.NewLeaderElector(config)
	if err != nil {
		return fmt.Errorf("preparing the Lease %s/%s: %w", namespace, lock, err)
	}
	stop := context.AfterFunc(ctx, func() {
		if !elector.IsLeader() {
			release()
		}
	})
	defer stop()
	elector.Run(electing)
	if electing.Err() == nil {
		return <-led // the Lease was lost
	}
	select {
	case err := <-led:
		return err
	default:
		return nil // ctx ended before the Lease was free
	}
}
