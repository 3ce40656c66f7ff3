package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// apiControllers are functions for the APIs that come with drivers, by the names of their CustomResourceDefinitions. A function adds the
// flags of the API's controller, and returns the controller. It is nil if the controller of another API serves this API, too.
var apiControllers = map[string]func(controller.Own, *pflag.FlagSet) operator.APIController{
	"sharedvolumes." + v1alpha1.GroupVersion.Group:        serveSharedVolumes,
	"sharedvolumegrants." + v1alpha1.GroupVersion.Group:   nil,
	"sharedvolumepolicies." + v1alpha1.GroupVersion.Group: nil,
}

func apiControllersOf(d drivers.Driver, own controller.Own, flags *pflag.FlagSet) ([]operator.APIController, error) {
	apis, err := d.ServedAPIs()
	if err != nil {
		return nil, err
	}
	var found []operator.APIController
	for _, api := range apis {
		newController, ok := apiControllers[api]
		if !ok {
			return nil, fmt.Errorf("driver %s brings the API %s, but this build has no controller for it", d.Name, api)
		}
		if newController != nil {
			found = append(found, newController(own, flags))
		}
	}
	return found, nil
}

// serveSharedVolumes returns the controller of SharedVolumes. Users may create thousands of them at once. The number of workers limits how
// many requests are in flight; the API server decides how fast it answers them.
func serveSharedVolumes(own controller.Own, flags *pflag.FlagSet) operator.APIController {
	options := sharedvolume.Options{Workers: sharedvolume.DefaultWorkers}
	options.AccessPoints, _ = own.API.(sharedvolume.AccessPoints) // nil if the driver does not know them
	flags.IntVar(&options.Workers, "shared-volume-workers", options.Workers, "`NUMBER` of SharedVolumes to reconcile concurrently")
	tune(flags, "shared-volume-workers")
	allowed := limits{burst: 100}
	allowed.addFlags(flags, "shared-volume-", "about SharedVolumes")
	prepare := func(ctx context.Context, cfg *rest.Config) (err error) {
		options.InitialAccess, err = sharedvolume.Prepare(ctx, cfg)
		return err
	}
	return operator.APIController{Prepare: prepare, Run: func(ctx context.Context, cfg *rest.Config) error {
		if options.Workers < 1 {
			return fmt.Errorf("--shared-volume-workers is %d, want 1 or more", options.Workers)
		}
		return sharedvolume.Run(ctx, allowed.applyTo(cfg), options)
	}}
}

// limits are the rate limits of a client.
type limits struct {
	qps   float32 // requests a second; 0 for no limit
	burst int     // requests at once, if qps is limited
}

func (l *limits) addFlags(flags *pflag.FlagSet, prefix, about string) {
	flags.Float32Var(&l.qps, prefix+"kube-api-qps", l.qps, "`NUMBER` of requests a second to the API server "+about+"; 0 for no limit")
	flags.IntVar(&l.burst, prefix+"kube-api-burst", l.burst, "`NUMBER` of these requests that may come at once, if there is a limit a second")
	tune(flags, prefix+"kube-api-qps", prefix+"kube-api-burst")
}

// applyTo returns a client configuration with these limits.
func (l limits) applyTo(cfg *rest.Config) *rest.Config {
	limited := rest.CopyConfig(cfg)
	limited.QPS, limited.Burst = l.qps, l.burst
	if l.qps == 0 {
		limited.QPS = -1 // 0 would mean the client's default
	}
	return limited
}
