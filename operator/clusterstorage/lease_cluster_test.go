package clusterstorage_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

// TestLease: the Lease is free once the operator has ended, and not before.
func TestLease(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	first, end := context.WithCancel(t.Context())
	running, ended := make(chan struct{}), make(chan error, 1)
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		ended <- clusterstorage.RunAsLeader(first, c.Config(), namespace, func(ctx context.Context) error {
			close(running)
			<-ctx.Done()
			close(stopping)
			<-stopped // the last writes of an operator take their time
			return nil
		})
	}()
	<-running

	holder := func() string {
		lease := &coordinationv1.Lease{}
		require.NoError(t, c.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cluster-storage-operator-lock"}, lease))
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	end()
	<-stopping
	assert.NotEmpty(t, holder(), "who holds the Lease while the operator is still ending")
	close(stopped)
	assert.NoError(t, <-ended, "the operator ended with")
	assert.Empty(t, holder(), "who holds the Lease after the operator has ended")

	failed := errors.New("it failed")
	err := clusterstorage.RunAsLeader(t.Context(), c.Config(), namespace, func(context.Context) error { return failed })
	assert.ErrorIs(t, err, failed, "an operator that fails ends with")

	// One that never got the Lease ends without an error.
	held, endHeld := context.WithCancel(t.Context())
	holding := make(chan struct{})
	go func() {
		ended <- clusterstorage.RunAsLeader(held, c.Config(), namespace, func(ctx context.Context) error { close(holding); <-ctx.Done(); return nil })
	}()
	<-holding
	waiting, endWaiting := context.WithCancel(t.Context())
	endWaiting()
	err = clusterstorage.RunAsLeader(waiting, c.Config(), namespace, func(context.Context) error { return failed })
	assert.NoError(t, err, "one that waited for the Lease ended with")
	endHeld()
	assert.NoError(t, <-ended)
}
